--- Fields of a sample that are recorded only if a script reads them: which ones a handler reads,
-- and their getters.
--
-- The values are in the tail of the record (event/sample_field.rs). Records from before a field was
-- requested, at a prompt, have no tail: the field is 0, "" or nil.
local ffi, view, native, exports = ...

local util = require "jit.util"
local bit = require "bit"
local flush = require "jit".flush
local cast, typeof, tonumber, type, error, setmetatable, rawget, getmetatable =
  ffi.cast, ffi.typeof, tonumber, type, error, setmetatable, rawget, debug.getmetatable
local funck, funcinfo, getupvalue = util.funck, util.funcinfo, debug.getupvalue
local band, rshift = bit.band, bit.rshift
local scope, cursor, live, ctx = view.scope, view.cursor, view.live, view.ctx
local exact, fstr, U32, I64 = scope.exact, scope.fstr, scope.U32, scope.I64
local U64 = typeof "uint64_t *"
local rows, registers = native.rows, native.registers      -- rows, from 0; names, from 1
local TAIL, LOW, HIGH = native.tail, native.mark_low, native.mark_high
local text_of = cast("const char *(*)(void *, const perilune_slot *, uint32_t)", native.text)

--- Returns the word of a row as `uint64_t`; 0 if the record has no tail.
local function sampled(s, row)
  local n = s.raw_size
  if n < TAIL then return 0ULL end
  local mark = cast(U32, s.raw + (n - 8))
  if mark[0] ~= LOW or mark[1] ~= HIGH then return 0ULL end
  return cast(U64, s.raw + (n - TAIL + 8 * row))[0]
end

-- The last texts of each row by the hash of their word.
local TEXTS, TEXT_BITS, HASH = 64, 6, 0x9e3779b97f4a7c15ULL
local words, texts = typeof("uint64_t[?]")(TEXTS * (#rows + 1)), {}

--- Returns the text that the word of a row stands for. It is looked up once: the name of a control
-- group costs a call of the kernel, and any text the search for its string.
local function sampled_text(s, row)
  local word = sampled(s, row)
  local i = TEXTS * row + tonumber(rshift(word * HASH, 64 - TEXT_BITS))
  if words[i] == word and word ~= 0ULL then return texts[i] end
  words[i], texts[i] = word, fstr(text_of(ctx, s, row))
  return texts[i]
end
exports.sampled, exports.sampled_text = sampled, sampled_text

-- Rows with a list, in order, and the functions that return how far before the end of the record a
-- list begins.
local lists, starts = {}, {}
for row = 0, #rows do
  local kind = rows[row].kind
  if kind == "registers" or kind == "branches" or kind == "counts" then lists[#lists + 1] = row end
end
for k = #lists, 1, -1 do
  local row, later = lists[k], starts[lists[k + 1]] or function() return TAIL end
  starts[row] = function(s) return later(s) + 8 * tonumber(sampled(s, row)) end
end

--- Returns word `at` of a row's list.
local function element(s, row, at)
  local offset = s.raw_size - starts[row](s) + 8 * at
  if offset < 0 then return 0LL end
  return cast(I64, s.raw + offset)[0]
end

local function fixed() return error("a field cannot be written", 2) end

local function gone() return error("a field of `e` is valid during its handler only", 2) end

--- Iterates over the values of an object at the keys of a list.
local function at_keys(self, list)
  local i = 0
  return function()
    i = i + 1
    local key = list[i]
    if key ~= nil then return key, self[key] end
  end
end

--- Returns a metatable whose objects belong to one event of `role` and read it with `read(s, key,
-- self)`; `keys(s)` lists the keys for `pairs`.
local function proxy(role, read, keys, len)
  return { __metatable = false, __newindex = fixed,
    __pairs = function(self)
      local s = cursor.s
      if s.ev ~= role or rawget(self, "#") ~= live.n then return gone() end
      return at_keys(self, keys(s))
    end,
    __len = len and function(self)
      local s = cursor.s
      return s.ev == role and rawget(self, "#") == live.n and len(s) or 0
    end,
    __index = function(self, key)
      local s = cursor.s
      if s.ev ~= role or rawget(self, "#") ~= live.n then return gone() end
      return read(s, key, self)
    end }
end

local position = {}                                        -- register → index in the list
for i, name in ipairs(registers) do position[name] = i - 1 end

--- Returns the message about a name that is not of a register; nil if it is.
function exports.not_a_register(name)
  if position[name] then return nil end
  return ("no register '%s'; the registers are %s"):format(tostring(name),
    table.concat(registers, ", "))
end

--- Returns a register; nil if the sample has none, as user registers in a kernel thread.
local function register(s, row, name)
  local at = position[name]
  if not at then return error(exports.not_a_register(name), 2) end
  if tonumber(sampled(s, row)) ~= #registers then return nil end
  return exact(element(s, row, at))
end

-- Parts of a branch, of its three words from, to and flags (struct perf_branch_entry).
local function flag(n) return function(s, row, i)
  return band(rshift(tonumber(band(element(s, row, 3 * i + 2), 0xfLL)), n), 1) == 1
end end
local branch = {
  from = function(s, row, i) return exact(element(s, row, 3 * i)) end,
  to = function(s, row, i) return exact(element(s, row, 3 * i + 1)) end,
  mispredicted = flag(0), predicted = flag(1), in_transaction = flag(2), aborted = flag(3),
  cycles = function(s, row, i)
    return tonumber(band(rshift(element(s, row, 3 * i + 2), 4), 0xffffLL))
  end,
}
local parts_of_branch = { "from", "to", "mispredicted", "predicted", "in_transaction", "aborted",
  "cycles" }
local function branches(s, row) return tonumber(sampled(s, row)) / 3 end

--- Returns the indexes 0 to n - 1.
local function indexes(n)
  local all = {}
  for i = 1, n do all[i] = i - 1 end
  return all
end

local function no_part(part)
  return error(("a branch has no '%s'; it has from, to, mispredicted, predicted, in_transaction, "
    .. "aborted, cycles"):format(tostring(part)), 2)
end
local function no_branch()
  return error("`_branches` has no element at this index; the first index is 0", 3)
end

local make = {}

function make.number(row)
  return function(s) return (exact(cast("int64_t", sampled(s, row)))) end
end

function make.text(row) return function(s) return (sampled_text(s, row)) end end

function make.registers(row, role)
  local function names() return registers end
  local mt = proxy(role, function(s, name) return register(s, row, name) end, names)
  return function() return setmetatable({ ["#"] = live.n }, mt) end, function(s)
    local all = {}
    for _, name in ipairs(registers) do all[name] = register(s, row, name) end
    return all
  end
end

function make.branches(row, role)
  local one = proxy(role, function(s, part, self)
    local read = branch[part]
    if not read then return no_part(part) end
    return read(s, row, rawget(self, "i"))
  end, function() return parts_of_branch end)
  local mt = proxy(role, function(s, i)
    if type(i) ~= "number" or i < 0 or i >= branches(s, row) or i % 1 ~= 0 then no_branch() end
    return setmetatable({ ["#"] = live.n, i = i }, one)
  end, function(s) return indexes(branches(s, row)) end, function(s) return branches(s, row) end)
  return function() return setmetatable({ ["#"] = live.n }, mt) end, function(s)
    local all, n = {}, branches(s, row)
    for i = 0, n - 1 do
      all[i] = {}
      for part, read in pairs(branch) do all[i][part] = read(s, row, i) end
    end
    return setmetatable({}, { __metatable = false, __newindex = fixed,
      __len = function() return n end,
      __pairs = function(self) return at_keys(self, indexes(n)) end,
      __index = function(_, i) return all[i] or no_branch() end })
  end
end

-- Names of the counts of a role's group, and name → index.
local groups = {}

--- Returns the index of a count, from 0.
local function count_at(role, key)
  local group = groups[role]
  local at = group.at[key]
  if not at and type(key) == "number" and group[key + 1] then at = key end
  if at then return at end
  return error(("the group has no count '%s'; it has %s"):format(
    tostring(key), table.concat(group, ", ")), 3)
end

--- Returns getters of the counts of a group, which `read(s, index)` returns one by one.
local function counts(role, read)
  local group = groups[role]
  local function len() return #group end
  local function names() return group end
  local mt = proxy(role, function(s, key) return read(s, count_at(role, key)) end, names, len)
  return function() return setmetatable({ ["#"] = live.n }, mt) end, function(s)
    local all = {}
    for i = 0, #group - 1 do all[i] = read(s, i) end
    return setmetatable({}, { __metatable = false, __newindex = fixed, __len = len,
      __pairs = function(self) return at_keys(self, group) end,
      __index = function(_, key) return all[count_at(role, key)] end })
  end
end

function make.counts(row, role)
  return counts(role, function(s, at)
    if at >= tonumber(sampled(s, row)) then return 0 end
    return exact(element(s, row, at))
  end)
end

--- Sets the names of the counts that the records of `role` have: for each, a list of names. Those
-- of a recording are fields of its own.
local function name_counts(role, names)
  local group = { at = {} }
  groups[role] = group
  for i, all in ipairs(names) do group[i], group.at[all[1]] = all[1], i - 1 end
  for i, all in ipairs(names) do
    for _, name in ipairs(all) do group.at[name] = group.at[name] or i - 1 end
  end
  local getters, copies = view.getters_of(role), view.copies_of(role)
  if group[1] and rawget(getters, "_counts." .. group[1]) then
    getters._counts, copies._counts = counts(role, function(s, at)
      return getters["_counts." .. group[at + 1]](s)
    end)
  end
end

--- Gives the views of `role` all fields that its event does not have itself. Reading one is an
-- error until it is requested. `names` are those of the counts of its group.
function exports.offer_fields(role, name, names)
  local getters = view.getters_of(role)
  name_counts(role, names)
  for row = 0, #rows do
    local field = rows[row].name
    if not rawget(getters, field) then
      getters[field] = function()
        return error(native.missing(field, name), 2)
      end
    end
  end
end

--- Makes the fields at these rows readable on the records of `role`. Compiled code may contain the
--- getters that are replaced.
function exports.request_fields(role, wanted)
  if wanted[1] then flush() end
  local getters, copies = view.getters_of(role), view.copies_of(role)
  for _, row in ipairs(wanted) do
    local field = rows[row]
    getters[field.name], copies[field.name] = make[field.kind](row, role)
  end
end

local row_of = {}
for row = 0, #rows do row_of[rows[row].name] = row end

-- Maximum number of functions and tables that a search visits.
local VISITS = 2000

--- Calls `met` with each text that is a constant of a handler, or of a function of the script that
-- it can reach through its upvalues; with `all`, also those of bundled modules, texts that are
-- values, and the names of the functions `all`. Returns whether it has seen everything.
local function each_text(handler, met, all)
  local seen, visits = {}, 0
  local visit

  local function constants(f)
    for i = -1, -65536, -1 do
      local k = funck(f, i)
      if k == nil then return end
      if type(k) == "string" then met(k)
      elseif type(k) == "proto" then constants(k) end
    end
  end

  local function is_visited(source)
    return source and (not source:find "^=perilune:" or all and source:find "^=perilune:stdlib/")
  end

  function visit(it, depth)
    local kind = type(it)
    if all and kind == "string" then return met(it) end
    if kind ~= "function" and kind ~= "table" or seen[it] or visits == VISITS then return end
    seen[it], visits = true, visits + 1
    if kind == "table" then
      if depth == 0 or getmetatable(it) then return end
      for _, value in next, it do visit(value, depth - 1) end
      return
    end
    if all and all[it] then return met(all[it]) end
    if not is_visited(funcinfo(it).source) then return end
    constants(it)
    for i = 1, 255 do
      local name, value = getupvalue(it, i)
      if not name then break end
      visit(value, depth)
    end
  end
  visit(handler, 3)
  return visits < VISITS
end

--- Returns the rows of the fields that a handler may read.
function exports.fields_read(handler)
  local list, found = {}, {}
  each_text(handler, function(name)
    local row = row_of[name]
    if row and not found[row] then found[row], list[#list + 1] = true, row end
  end)
  return list
end

-- Fields and functions whose results depend on the names of tasks at the time of an event, and
-- those that print them.
local NAMING, PRINTING = { _comm = true, _text = true, comm = true }, { emit = true, print = true }

--- Returns whether a handler may read the names of tasks, and whether it may print an event.
-- `env` has the functions of the script.
function exports.reads_names(handler, env)
  local reads, prints, functions = false, false, {}
  for _, set in next, { NAMING, PRINTING } do
    for name in next, set do
      local it = rawget(env, name)
      if it then functions[it] = name end
    end
  end
  local is_whole = each_text(handler, function(text)
    reads, prints = reads or NAMING[text] ~= nil, prints or PRINTING[text] ~= nil
  end, functions)
  return reads or not is_whole, prints
end
