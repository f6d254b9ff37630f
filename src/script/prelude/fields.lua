--- Fields that a handler reads and its event does not have, found before any event comes: also in branches that none may ever take.
--
-- The handler is a function by then, so its bytecode is read, beside the values of its upvalues: it does not matter where it was
-- written, and a script that looks before it reads (`if ev.fields.x then … e.x`) is understood. The bytecode is run in the
-- abstract, where a value is the record, something made of the event, known, or anything.
--
-- Never a false alarm. A branch on what is made of the event can go either way; on what is known it goes that way, and
-- what hangs on anything else is not judged, nor is a function with a shape that is not understood here. What is missed is an
-- error at the first event that reads it.
local is_evsel, getters_of, nearest = ...

local util, bit = require "jit.util", require "bit"
local band, rshift = bit.band, bit.rshift
local funcbc, funck, funcinfo, funcuvname = util.funcbc, util.funck, util.funcinfo, util.funcuvname
local getupvalue, getmetatable, getfenv = debug.getupvalue, debug.getmetatable, getfenv
local rawequal, rawget, type, next, pairs, ipairs = rawequal, rawget, type, next, pairs, ipairs

--- Abstract values; whatever is none of them is known. A slot that is absent holds anything.
local RECORD, EVENT, ANY, NIL = {}, {}, {}, {}

-- LuaJIT's instructions in the order of their numbers. Whether they still are is asked below.
local OPS = {}
for op in ([[ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP ISTC ISFC IST ISF ISTYPE ISNUM MOV NOT UNM LEN
  ADDVN SUBVN MULVN DIVVN MODVN ADDNV SUBNV MULNV DIVNV MODNV ADDVV SUBVV MULVV DIVVV MODVV POW CAT KSTR KCDATA KSHORT KNUM KPRI KNIL
  UGET USETV USETS USETN USETP UCLO FNEW TNEW TDUP GGET GSET TGETV TGETS TGETB TGETR TSETV TSETS TSETB TSETM TSETR CALLM CALL CALLMT
  CALLT ITERC ITERN VARG ISNEXT RETM RET RET0 RET1 FORI JFORI FORL IFORL JFORL ITERL IITERL JITERL LOOP ILOOP JLOOP JMP BNOT BAND BOR
  BXOR BSHL BSHR BSAR FUNCF IFUNCF JFUNCF FUNCV]]):gmatch "%S+" do
  OPS[#OPS + 1] = op
end

-- Kinds of operands A, B and C in the mode of an instruction.
local A_DST, A_BASE, B_VAR, C_VAR, C_STR, C_NUM, C_JUMP = 1, 2, 3 * 8, 3 * 128, 10 * 128, 9 * 128, 13 * 128

--- The instructions of a function or of a prototype; nil where one of them is not known.
local function decode(f)
  local code, pc = {}, 0
  while true do
    local ins, mode = funcbc(f, pc)
    if not ins then return code end
    local op, b, d = OPS[band(ins, 0xff) + 1], band(mode, 15 * 8), rshift(ins, 16)
    if not op then return nil end
    local i = { op = op, a = band(rshift(ins, 8), 0xff), dst = band(mode, 7) == A_DST, base = band(mode, 7) == A_BASE }
    if b ~= 0 then b, d = rshift(d, 8), band(d, 0xff) i.b, i.b_var = b, band(mode, 15 * 8) == B_VAR end
    local c = band(mode, 15 * 128)
    i.d, i.d_var = d, c == C_VAR
    if c == C_JUMP then i.to = pc + d - 0x7fff elseif c == C_STR then i.k = funck(f, -d - 1) elseif c == C_NUM then i.k = funck(f, d) end
    code[pc], pc = i, pc + 1
  end
end

local function ops_of(f)
  local ops = {}
  for pc, i in pairs(decode(f) or {}) do ops[pc + 1] = i.op end
  return table.concat(ops, " ")
end

-- Another LuaJIT may number its instructions otherwise, or pass arguments elsewhere than two slots behind the function: it is then
-- not read at all.
local probe = loadstring "local f return function(e) if e.x == 1 and not f then return f(e, 2.5) end for i = 1, 2 do f = i end end"
local code_of_probe, ops_of_probe = decode(probe()) or {}, {}
for pc, i in pairs(code_of_probe) do ops_of_probe[pc + 1] = i.op end
local understood = table.concat(ops_of_probe, " ")
    == "FUNCF TGETS ISNEN JMP UGET IST JMP UGET MOV KNUM CALLT KSHORT KSHORT KSHORT FORI USETV FORL RET0"
  and code_of_probe[8].a == code_of_probe[7].a + 2

local function is_of_script(f)
  local source = type(f) == "function" and funcinfo(f).source
  return source and source:sub(1, 10) ~= "=perilune:"
end

--- Notes in `written` what the script's functions that `value` leads to may write: names of upvalues, and keys of tables. Nothing
-- of them is known.
local function note_writes(value, written)
  if written[value] or type(value) == "table" and is_evsel(value) then return end
  local is_function, is_proto = is_of_script(value), type(value) == "proto"
  if not (is_function or is_proto or type(value) == "table") then return end
  written[value], written.count = true, written.count + 1
  if written.count > 1000 then written.all = true return end
  if type(value) == "table" then
    for k, v in next, value do note_writes(k, written) note_writes(v, written) end
    return note_writes(getmetatable(value), written)
  end
  for pc, i in pairs(decode(value) or { [0] = { op = "GSET" } }) do
    if i.op:find "^USET" then written.names[funcuvname(value, i.a) or ""] = true
    elseif i.op == "TSETS" or i.op == "TSETB" then written.keys[i.k or i.d] = true
    elseif i.op:find "^TSET" then written.tables = true
    elseif i.op == "GSET" then written.all = true
    elseif i.op == "FNEW" then note_writes(funck(value, -i.d - 1), written) end
  end
  if is_proto then return end
  for n = 1, math.huge do
    local name, upvalue = getupvalue(value, n)
    if not name then return end
    note_writes(upvalue, written)
  end
end

local function is_known(v) return v ~= RECORD and v ~= EVENT and v ~= ANY end

--- A value of Lua as an abstract one.
local function known(v)
  if v == nil then return NIL end
  if v ~= v or type(v) == "cdata" or type(v) == "userdata" then return ANY end
  return v
end

--- What is made of two values.
local function made_of(x, y)
  if x == EVENT and (y == EVENT or is_known(y)) or y == EVENT and is_known(x) then return EVENT end
  return ANY
end

local function truth(v)
  if v == RECORD then return true end
  if is_known(v) then return v ~= NIL and v ~= false end
end

-- Comparisons: true, false, or nil and what they hang on.
local function equal(x, y)
  if x == RECORD and is_known(y) and type(y) ~= "table" or x == RECORD and y == NIL then return false end
  if not (is_known(x) and is_known(y)) then return nil, made_of(x, y) end
  for _, v in ipairs { x, y } do
    local mt = type(v) == "table" and getmetatable(v)
    if mt and rawget(mt, "__eq") then return nil, ANY end
  end
  return rawequal(x, y)
end

local function ordered(x, y, by)
  local kind = type(x)
  if not (is_known(x) and is_known(y)) then return nil, made_of(x, y) end
  if kind ~= type(y) or kind ~= "number" and kind ~= "string" then return nil, ANY end
  return by(x, y)
end

local function less(x, y) return ordered(x, y, function(a, b) return a < b end) end
local function at_most(x, y) return ordered(x, y, function(a, b) return a <= b end) end

local COMPARE = {
  ISLT = less, ISGE = less, ISLE = at_most, ISGT = at_most, ISEQV = equal, ISNEV = equal, ISEQS = equal, ISNES = equal,
  ISEQN = equal, ISNEN = equal, ISEQP = equal, ISNEP = equal,
}
local NEGATED = { ISGE = true, ISGT = true, ISNEV = true, ISNES = true, ISNEN = true, ISNEP = true, ISF = true, ISFC = true }
local TEST = { IST = true, ISTC = true, ISF = true, ISFC = true }
local PRIMITIVES = { [0] = NIL, [1] = false, [2] = true }

--- Marks in `hanging` what is done or not by how the branch at `pc` goes, and in `joins` where its ways may meet.
local function hang(next_of, last, pc, hanging, joins)
  local function reach(without)
    local seen, todo, leaves = {}, { unpack(next_of[pc]) }, false
    while #todo > 0 do
      local at = table.remove(todo)
      if at ~= without and not seen[at] then
        seen[at] = true
        leaves = leaves or #next_of[at] == 0
        for _, to in ipairs(next_of[at]) do todo[#todo + 1] = to end
      end
    end
    return seen, leaves
  end
  for meet = pc + 1, last do
    local seen, leaves = reach(meet)
    if not leaves then
      joins[meet] = true
      for at in next, seen do hanging[at], joins[at] = true, true end
      return
    end
  end
  for at in next, (reach()) do hanging[at], joins[at] = true, true end
end

local COMPILED = { JFORI = true, IFORL = true, JFORL = true, IITERL = true, JITERL = true, ILOOP = true, JLOOP = true }
local DEPTH, STEPS = 4, 50000

--- Runs `f` in the abstract; `args[0]` is its first argument. In `sure` runs, fields that there are not are told of. Gives what it returns first.
local function run(job, f, args, sure, depth)
  local code = decode(f)
  if not code or depth > DEPTH or code[0].op ~= "FUNCF" then return ANY end
  for pc = 1, #code do
    local i = code[pc]
    if COMPILED[i.op] then return ANY end                  -- such a loop has lost its target
    if i.op == "FNEW" then                                 -- a closure may write the locals that are followed here
      local written = { names = {}, keys = {}, count = 0 }
      note_writes(funck(f, -i.d - 1), written)
      if written.all or next(written.names) then return ANY end
    end
  end
  local states, next_of, branches, result, final
  local hanging, joins = {}, {}

  local function index(object, key, pc)
    if object == RECORD then
      if final and sure and not hanging[pc] and type(key) == "string" and not job.fields[key] then
        job.missing[#job.missing + 1] = { f = f, line = funcinfo(f, pc).currentline, key = key }
      end
      if key == "_event" then return job.event end
      return (key == "_text" or not is_known(key)) and ANY or EVENT          -- the text has names of fields
    end
    if object == EVENT or type(object) ~= "table" or not is_known(object) or key == EVENT then
      return object == EVENT and is_known(key) and EVENT or made_of(object, key)
    end
    if not is_known(key) then return ANY end
    if key == "fields" and is_evsel(object) then return object.fields end
    local written = job.written
    if written.all or written.tables or written.keys[key] then return ANY end
    local value, mt = rawget(object, key), getmetatable(object)
    if value == nil and mt and rawget(mt, "__index") ~= nil then return ANY end
    return known(value)
  end

  --- The first result of the call at `pc`, of `count` arguments; nil where that is not known.
  local function call(regs, pc, count)
    local base = code[pc].a
    local callee, passed, made = regs[base], {}, ANY
    for n = 0, (count or 0) - 1 do
      local v = regs[base + 2 + n]
      if v == nil then v = ANY end
      if is_known(v) and is_of_script(v) then return ANY end                 -- pcall(f, e): who knows when, and what it may do
      if v == EVENT or v == RECORD then made = EVENT end
      passed[n] = v
    end
    if not count or type(callee) ~= "function" then return callee == EVENT and EVENT or ANY end
    if not is_of_script(callee) then return made end
    for n = count, funcinfo(callee).params - 1 do passed[n] = NIL end
    return run(job, callee, passed, final and sure and not hanging[pc], depth + 1)
  end

  local function returns(v)
    if result == nil then result = v
    elseif not rawequal(result, v) then
      local plain = result ~= ANY and v ~= ANY and result ~= RECORD and v ~= RECORD and not next(branches)
      result = plain and EVENT or ANY
    end
    return {}
  end

  --- Does one instruction to `regs`. Gives where it may go on, and what that hangs on if there are two ways.
  local function step(pc, regs)
    local i = code[pc]
    local op, a = i.op, i.a
    local function reg(n) local v = regs[n] if v == nil then return ANY end return v end
    local function forget(from) for slot in pairs(regs) do if slot >= from then regs[slot] = nil end end end
    if COMPARE[op] or TEST[op] then
      local way, why
      if TEST[op] then
        way, why = truth(reg(i.d)), reg(i.d)
        if i.dst then regs[a] = reg(i.d) end
      else
        local y = i.k
        if i.d_var then y = reg(i.d) elseif y == nil then y = PRIMITIVES[i.d] end
        way, why = COMPARE[op](reg(a), y)
      end
      local jump, on = code[pc + 1].to, pc + 2
      if way == nil then return { jump, on }, why end
      return { (way ~= (NEGATED[op] or false)) and jump or on }
    elseif op == "JMP" or op == "UCLO" or op == "ISNEXT" then return { i.to }
    elseif op == "FORI" then
      local first, last, by = reg(a), reg(a + 1), reg(a + 2)
      local way, why = at_most(first, last)
      if by ~= 1 then way, why = nil, ANY end
      forget(a)
      regs[a + 3] = why or ANY
      if way == nil then return { pc + 1, i.to }, why end
      return { way and pc + 1 or i.to }
    elseif op == "FORL" then return { i.to, pc + 1 }, EVENT
    elseif op == "ITERL" then return { i.to, pc + 1 }, ANY
    elseif op == "RET0" then return returns(NIL)
    elseif op == "RET1" or op == "RET" then return returns((op == "RET1" or i.d == 2) and reg(a) or ANY)
    elseif op == "RETM" then return returns(ANY)
    elseif op == "CALLT" or op == "CALLMT" then return returns(call(regs, pc, op == "CALLT" and i.d - 1 or nil))
    elseif op == "CALL" or op == "CALLM" then
      local v = call(regs, pc, op == "CALL" and i.d - 1 or nil)
      forget(a)
      regs[a] = v
    elseif op == "MOV" then regs[a] = reg(i.d)
    elseif op == "KSTR" or op == "KNUM" then regs[a] = i.k
    elseif op == "KSHORT" then regs[a] = i.d < 0x8000 and i.d or i.d - 0x10000
    elseif op == "KPRI" then regs[a] = PRIMITIVES[i.d]
    elseif op == "KNIL" then for n = a, i.d do regs[n] = NIL end
    elseif op == "UGET" then
      local name, value = getupvalue(f, i.d + 1)
      regs[a] = (job.written.all or job.written.names[name]) and ANY or known(value)
    elseif op == "GGET" then regs[a] = known(rawget(getfenv(f), i.k))
    elseif op == "TGETS" then regs[a] = index(reg(i.b), i.k, pc)
    elseif op == "TGETV" then regs[a] = index(reg(i.b), reg(i.d), pc)
    elseif op == "TGETB" then regs[a] = index(reg(i.b), i.d, pc)
    elseif op == "NOT" and truth(reg(i.d)) ~= nil then regs[a] = not truth(reg(i.d))
    elseif i.dst then
      local x = i.b_var and reg(i.b) or i.k ~= nil and i.k or reg(i.d)
      regs[a] = (i.b_var or i.d_var) and made_of(x, i.d_var and reg(i.d) or x) or ANY
    elseif i.base then forget(a) end
    return { pc + 1 }
  end

  local function merge(to, regs)
    local old = states[to]
    if not old then
      states[to] = {}
      for slot, v in pairs(regs) do states[to][slot] = v end
      return true
    end
    local changed = false
    for slot, v in pairs(old) do
      local new = regs[slot]
      if not rawequal(v, new) then
        local either = new ~= nil and new ~= ANY and new ~= RECORD and v ~= ANY and v ~= RECORD and not joins[to]
        local merged = either and EVENT or nil
        if not rawequal(v, merged) then old[slot], changed = merged, true end
      end
    end
    return changed
  end

  --- One pass to the point where nothing changes; marks what hangs on branches. Whether that changed anything.
  local function pass()
    states, next_of, branches, result = {}, {}, {}, nil
    merge(1, args)
    local todo = { 1 }
    while #todo > 0 do
      local pc = table.remove(todo)
      job.steps = job.steps + 1
      if job.steps > STEPS then return false end
      local regs = {}
      for slot, v in pairs(states[pc]) do regs[slot] = v end
      local ways, why = step(pc, regs)
      next_of[pc] = ways
      if #ways == 2 and why ~= EVENT then branches[pc] = true end
      for _, to in ipairs(ways) do if merge(to, regs) then todo[#todo + 1] = to end end
    end
    local before, after = 0, 0
    for _ in pairs(joins) do before = before + 1 end
    for pc in pairs(branches) do hang(next_of, #code, pc, hanging, joins) end
    for _ in pairs(joins) do after = after + 1 end
    return after > before
  end

  while pass() do end
  if job.steps > STEPS then return ANY end
  local found = result
  final = true
  for pc, regs in pairs(states) do
    local copy = {}
    for slot, v in pairs(regs) do copy[slot] = v end
    step(pc, copy)
  end
  if found == nil then return ANY end
  return found
end

--- What `handler` reads of its record and no event of `roles`, of the evsel `name`, has: the message, or nil. `event` is what the
-- record has as `_event`, if that is one.
return function(handler, name, roles, event)
  local fields = {}
  for _, role in ipairs(roles) do
    for field in pairs(getters_of(role)) do fields[field] = true end
  end
  local job = { fields = fields, event = event or ANY, missing = {}, steps = 0, written = { names = {}, keys = {}, count = 0 } }
  note_writes(handler, job.written)
  if understood then run(job, handler, { [0] = RECORD }, true, 1) end
  table.sort(job.missing, function(a, b) return a.line < b.line end)
  local first = job.missing[1]
  if not first or job.steps > STEPS then return end
  local file, near = funcinfo(first.f).source:match "([^@/]*)$", nil
  for _, role in ipairs(roles) do
    near = nearest(role, first.key)
    if near:find "did you mean" then break end
  end
  return ("%s:%d: %s has no field '%s'%s"):format(file, first.line, name, first.key, near)
end
