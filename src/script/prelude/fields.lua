--- Finds fields that a handler reads and its event does not have before any event is handled, also
-- in branches that may never run.
--
-- Reads the handler's bytecode, since it is a function by then. Only a plain `e.field` is checked,
-- where `e` is the first parameter and is never assigned. There are no false alarms: both sides of
-- a branch are checked only if its condition depends on the event alone, or on whether the runtime
-- knows something for it (`if p:close(…)`). Any other condition may test whether the field exists,
-- so code that depends on it is not checked. A field that is missed is an error at the first event
-- that reads it.
local _, view, _, exports = ...
local getters_of, nearest = view.getters_of, view.nearest

local util, bit = require "jit.util", require "bit"
local band, rshift = bit.band, bit.rshift
local funcbc, funck, funcinfo, getupvalue, getmetatable =
  util.funcbc, util.funck, util.funcinfo, debug.getupvalue, debug.getmetatable

-- LuaJIT's instructions in the order of their numbers; the probe below checks that they still are.
local OPS = {}
for op in ([[ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP ISTC ISFC IST ISF
  ISTYPE ISNUM MOV NOT UNM LEN ADDVN SUBVN MULVN DIVVN MODVN ADDNV SUBNV MULNV DIVNV MODNV
  ADDVV SUBVV MULVV DIVVV MODVV POW CAT KSTR KCDATA KSHORT KNUM KPRI KNIL UGET USETV USETS
  USETN USETP UCLO FNEW TNEW TDUP GGET GSET TGETV TGETS TGETB TGETR TSETV TSETS TSETB
  TSETM TSETR CALLM CALL CALLMT CALLT ITERC ITERN VARG ISNEXT RETM RET RET0 RET1 FORI
  JFORI FORL IFORL JFORL ITERL IITERL JITERL LOOP ILOOP JLOOP JMP BNOT BAND BOR BXOR BSHL
  BSHR BSAR FUNCF]]):gmatch "%S+" do
  OPS[#OPS + 1] = op
end

-- Kinds of the operands A, B and C. DST: A is written. BASE: A and the slots above it are written.
local DST, BASE, VAR_A, VAR_B, VAR_C, STR_C, JUMP_C = 1, 2, 3, 3 * 8, 3 * 128, 10 * 128, 13 * 128

--- Decodes the instructions of a function or a prototype. Returns nil if one is not known, as in a
-- compiled loop.
local function decode(f)
  local code, pc = {}, 0
  while true do
    local ins, mode = funcbc(f, pc)
    if not ins then return code end
    local op, kind_b, kind_c, c =
      OPS[band(ins, 0xff) + 1], band(mode, 15 * 8), band(mode, 15 * 128), rshift(ins, 16)
    if not op or op:find "^[IJ]LOOP" or op:find "^[IJ]FOR" or op:find "^[IJ]ITER" then
      return nil
    end
    local i = { op = op, a = band(rshift(ins, 8), 0xff), dst = band(mode, 7) == DST,
      base = band(mode, 7) == BASE, var_a = band(mode, 7) == VAR_A }
    if kind_b ~= 0 then i.b, c = rshift(c, 8), band(c, 0xff) end
    i.c, i.var_b, i.var_c = c, kind_b == VAR_B, kind_c == VAR_C
    if kind_c == JUMP_C then
      i.to = pc + c - 0x7fff
    elseif kind_c == STR_C then
      i.k = funck(f, -c - 1)
    end
    code[pc], pc = i, pc + 1
  end
end

-- Disables the check if LuaJIT numbers its instructions differently, or does not pass arguments
-- from two slots after the function on.
local text =
  "local f return function(e) if e.x == 1 and not f then return f(e, 2.5) end "
  .. "for i = 1, 2 do f = i end end"
local probe, ops = decode(loadstring(text)()) or {}, {}
for pc = 0, #probe do ops[pc + 1] = probe[pc] and probe[pc].op end
local understood = table.concat(ops, " ")
  == "FUNCF TGETS ISNEN JMP UGET IST JMP UGET MOV KNUM CALLT KSHORT KSHORT KSHORT FORI USETV FORL "
  .. "RET0"
  and probe[8].a == probe[7].a + 2
exports.decode = understood and decode

--- Returns whether a prototype may write a local of an enclosing function.
local function writes(proto)
  for _, i in pairs(decode(proto) or { { op = "USETV" } }) do
    if i.op:find "^USET" or i.op == "FNEW" and writes(funck(proto, -i.c - 1)) then return true end
  end
end

--- Returns where all paths from `first` to `to` and beyond join; nil if one of them returns or
-- jumps back before that.
local function meet(code, first, to)
  local at = first
  while at < to do
    local i = code[at]
    if i.op:find "^RET" or i.op:find "^CALLM?T$" or i.to and i.to < first then return nil end
    if i.to and i.to > to then to = i.to end
    at = at + 1
  end
  return to > first and to or nil
end

-- Possible contents of a slot: the record; a value computed from its event alone; a constant; a
-- function or object of the runtime (WORD); the result of such a function for a value of the event
-- (ANSWER); the number `_data_src` (SOURCE); registers (REGISTERS); or one of the script's
-- functions. Nothing is known about a slot that is absent.
local RECORD, EVENT, PLAIN, WORD, ANSWER, SOURCE, REGISTERS = 1, 2, 3, 4, 5, 6, 7
local PARTED = { _data_src = SOURCE, _regs = REGISTERS, _user_regs = REGISTERS }
local function made_of(x, y)
  if x == SOURCE or x == REGISTERS then x = EVENT end
  if y == SOURCE or y == REGISTERS then y = EVENT end
  return (x == EVENT or x == PLAIN) and (y == EVENT or y == PLAIN) and math.min(x, y) or nil
end

local SOURCE_PARTS = "`_data_src` is a number; its parts are the fields _data_op, _data_level, "
  .. "_data_snoop, _data_tlb and _data_lock"

--- Returns what a slot holds after it was assigned the value `v` of the script.
local function held(v)
  if type(v) == "table" then
    return rawget(getmetatable(v) or {}, "__metatable") == false and WORD or nil
  end
  local source = type(v) == "function" and funcinfo(v).source
  return source and (source:find "^=perilune:" and WORD or v) or nil
end

--- Finds the first read of a field that is not in `fields`, in `f` or in a function to which it
-- passes its record. Returns the field, the function and the position in its bytecode. `looked` has
-- the functions that were checked.
local function misread(f, fields, looked)
  local code, joins, first, below, parts = decode(f), {}, nil, {}, {}
  looked[f] = true
  if not code or code[0].op ~= "FUNCF" or funcinfo(f).params == 0 then return end
  for _, i in ipairs(code) do
    if (i.dst or i.base) and i.a == 0 or i.op == "FNEW" and writes(funck(f, -i.c - 1)) then
      return
    end
    if i.to then joins[i.to] = true end
  end

  --- Returns what the result of call `i` is.
  local function call(i, holds)
    local callee, made = holds[i.a], nil
    if type(callee) == "function" then
      if holds[i.a + 2] == RECORD and i.c > 1 and not looked[callee] and not below[1] then
        below = { misread(callee, fields, looked) }
      end
      return
    end
    for arg = i.a + 2, i.a + i.c do
      local what = holds[arg]
      if what == EVENT or what == RECORD and callee == WORD then
        made = callee == WORD and ANSWER or EVENT
      elseif what ~= PLAIN and what ~= WORD then return end
    end
    return (callee == WORD or callee == EVENT) and made or nil
  end

  --- Walks from `pc` on, and adds other reachable positions to `todo`. After a jump target nothing
  -- is known about the slots.
  local seen, todo = {}, { 1 }
  local function walk(pc)
    local holds = { [0] = RECORD }
    while pc and not seen[pc] do
      seen[pc] = true
      if joins[pc] then holds = { [0] = RECORD } end
      local i, to, x, y = code[pc], pc + 1, PLAIN, PLAIN
      if i.var_b then x = holds[i.b] end
      if i.var_c then y = holds[i.c] end
      if code[to] and code[to].op == "JMP" and i.op:find "^IS" and not i.to then
        local is_test = i.op:find "^IS[TF]C?$"
        if made_of(is_test and x or holds[i.a], y) == EVENT or is_test and y == ANSWER then
          todo[#todo + 1], to = code[to].to, to + 1
        else
          to = meet(code, to, code[to].to)
        end
      elseif i.op:find "^RET" or i.op:find "^CALLM?T$" then
        if i.op == "CALLT" then call(i, holds) end
        to = nil
      elseif i.op == "FORI" then to = meet(code, to, i.to)
      elseif i.op == "ITERL" then to = meet(code, i.to, to)
      elseif i.to and i.op ~= "LOOP" then to = i.to
      elseif i.op == "TGETS" and x == RECORD then
        if not fields[i.k] and not (first and first < pc) then first = pc end
        holds[i.a] = i.k ~= "_event" and i.k ~= "_text" and EVENT or nil -- these show the fields
        holds[i.a] = PARTED[i.k] or holds[i.a]
      elseif i.op == "TGETS" and (x == SOURCE or x == REGISTERS) then
        local why = x == SOURCE and SOURCE_PARTS or exports.not_a_register(i.k)
        if why and not (first and first < pc) then first, parts[pc] = pc, why end
        holds[i.a] = EVENT
      elseif i.op == "MOV" then holds[i.a] = y
      elseif i.op == "TGETS" and x == WORD then holds[i.a] = WORD
      elseif i.op == "UGET" then holds[i.a] = held(select(2, getupvalue(f, i.c + 1)))
      elseif i.op == "GGET" then holds[i.a] = held(rawget(getfenv(f), i.k))
      elseif i.dst then holds[i.a] = (i.var_b or i.var_c or i.op:find "^K") and made_of(x, y) or nil
      elseif i.base then
        local made = i.op == "CALL" and call(i, holds) or nil
        for slot in pairs(holds) do if slot >= i.a then holds[slot] = nil end end
        for slot = i.a, i.a + (i.b or 1) - 2 do holds[slot] = made end
      end
      pc = to
    end
  end
  while #todo > 0 do walk(table.remove(todo)) end
  if first then return code[first].k, f, first, parts[first] end
  return unpack(below)
end

--- Returns the message about a field that `handler` reads of its record and no event of `roles`, of
-- the evsel `name`, has; nil if there is none.
return function(handler, name, roles)
  if not understood then return end
  local fields, near = {}, nil
  for _, role in ipairs(roles) do
    for field in pairs(getters_of(role)) do fields[field] = true end
  end
  local field, f, pc, part = misread(handler, fields, {})
  if not field then return end
  for _, role in ipairs(roles) do
    near = nearest(role, field)
    if near:find "did you mean" or near:find "^: " then break end
  end
  local at = funcinfo(f, pc)
  if part then return ("%s:%d: %s"):format(at.source:match "([^@=/]*)$", at.currentline, part) end
  return ("%s:%d: %s has no field '%s'%s"):format(
    at.source:match "([^@=/]*)$", at.currentline, name, field, near)
end
