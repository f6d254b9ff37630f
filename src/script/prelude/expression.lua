--- Expressions: what the code that `event::expr` generates runs on, and the functions made of that code.
--
-- The code of an expression is one Lua expression over the slot `s` (or the `key`) and the locals below. Each event of an
-- evsel gets a function of its own, as its fields lie elsewhere. What C leaves undefined gives 0 and is counted
-- in a cell that the host reads: nothing here raises an error or makes garbage, so compiled handlers stay compiled.
local ffi, view, leaves, undefined_at, native, slot_of, exports = ...

local bit = require "bit"
local cast, typeof, tonumber, type, error, floor, ceil = ffi.cast, ffi.typeof, tonumber, type, error, math.floor, math.ceil
local bswap, lshift, rshift, arshift, sub = bit.bswap, bit.lshift, bit.rshift, bit.arshift, string.sub
local loadstring, next, concat = loadstring, next, table.concat
local i64, u64 = typeof "int64_t", typeof "uint64_t"
local scope, cursor, is_live = view.scope, view.cursor, view.is_live
local fstr, text_len, loc_at, loc_len = scope.fstr, scope.text_len, scope.loc_at, scope.loc_len

local count = cast("double *", undefined_at)
local glob = cast("uint32_t (*)(const char *, uint32_t, const char *, uint32_t)", leaves.glob)

local function undefined() count[0] = count[0] + 1 return 0 end
local function undefined_long() count[0] = count[0] + 1 return 0LL end
local function undefined_ulong() count[0] = count[0] + 1 return 0ULL end

-- Numbers within ±2^53: their double quotient, cut, is exact. `+ 0` makes 0 of -0.
local function quotient(a, b)
  local q = a / b
  return (q < 0 and ceil(q) or floor(q)) + 0
end
local function remainder(a, b) return a - quotient(a, b) * b end

local LEAST = -0x8000000000000000LL

local X = {
  cast = cast, fstr = fstr, text_len = text_len, loc_at = loc_at, loc_len = loc_len, exact = scope.exact,
  I8 = scope.I8, U8 = scope.U8, I16 = scope.I16, U16 = scope.U16, I32 = scope.I32, U32 = scope.U32, I64 = scope.I64,
  U64 = typeof "uint64_t *", i64 = i64, u64 = u64, comm_of = view.comm_of, own_comm = view.own_comm, stack_of = view.stack_of, ctx = view.ctx, met = view.met,
  tonumber = tonumber, floor = floor, format = string.format, glob = glob, bswap = bswap,
  lshift = lshift, rshift = rshift, arshift = arshift, band = bit.band, bor = bit.bor, bxor = bit.bxor, bnot = bit.bnot, tobit = bit.tobit,
  quotient = quotient, remainder = remainder,
}

--- A value beside which others of any integer type stand: hexadecimal text with its sign where no
-- double holds it.
function X.mixed_signed(v)
  local n = tonumber(v)
  if i64(n) == v and n ~= 9223372036854775808 then return n end
  if v < 0LL then return ("-0x%x"):format(u64(-v)) end
  return ("0x%x"):format(v)
end
function X.mixed_unsigned(v)
  local n = tonumber(i64(v))
  if n >= 0 and i64(n) == i64(v) and n ~= 9223372036854775808 then return n end
  return ("0x%x"):format(v)
end

function X.divide_natural(a, b) if b == 0 then return undefined() end return floor(a / b) end
function X.remainder_natural(a, b) if b == 0 then return undefined() end return a % b end
function X.divide_number(a, b) if b == 0 then return undefined() end return quotient(a, b) end
function X.remainder_number(a, b) if b == 0 then return undefined() end return remainder(a, b) end

function X.divide_int(a, b)
  if b == 0 or (b == -1 and a == -2147483648) then return undefined() end
  return quotient(a, b)
end
function X.remainder_int(a, b)
  if b == 0 or (b == -1 and a == -2147483648) then return undefined() end
  return remainder(a, b)
end
function X.divide_long(a, b)
  if b == 0LL or (b == -1LL and a == LEAST) then return undefined_long() end
  return a / b
end
function X.remainder_long(a, b)
  if b == 0LL or (b == -1LL and a == LEAST) then return undefined_long() end
  return a % b
end
function X.divide_ulong(a, b) if b == 0ULL then return undefined_ulong() end return a / b end
function X.remainder_ulong(a, b) if b == 0ULL then return undefined_ulong() end return a % b end

function X.shift_left(a, n) if n < 0 or n > 31 then return undefined() end return lshift(a, n) end
function X.shift_right_int(a, n) if n < 0 or n > 31 then return undefined() end return arshift(a, n) end
function X.shift_right_uint(a, n) if n < 0 or n > 31 then return undefined() end return rshift(a, n) end
function X.shift_left_long(a, n) if n < 0 or n > 63 then return undefined_long() end return lshift(a, n) end
function X.shift_right_long(a, n) if n < 0 or n > 63 then return undefined_long() end return arshift(a, n) end
function X.shift_left_ulong(a, n) if n < 0 or n > 63 then return undefined_ulong() end return lshift(a, n) end
function X.shift_right_ulong(a, n) if n < 0 or n > 63 then return undefined_ulong() end return rshift(a, n) end

function X.element(p, i, n) if i < 0 or i >= n then return undefined() end return p[i] end
function X.element_long(p, i, n) if i < 0 or i >= n then return undefined_long() end return p[i] end
function X.element_ulong(p, i, n) if i < 0 or i >= n then return undefined_ulong() end return p[i] end

--- A dynamic field's text. Also empty text has its NUL: without a byte it is not in the record.
function X.dynamic_text(s, at, size, base)
  local n = loc_len(s, at, size, base)
  if n == 0 then undefined() return "" end
  local p = loc_at(s, at, size, base)
  return fstr(p, text_len(p, n))
end

function X.glob_text(pattern, length, text) return glob(pattern, length, text, #text) ~= 0 end

function X.compare_text(a, b, n)
  if n > 0x7fffffff then n = 0x7fffffff end
  a, b = sub(a, 1, n), sub(b, 1, n)
  if a == b then return 0 end
  return a < b and -1 or 1
end

-- Names that are remembered at a time, of each kind.
local REMEMBERED = 16384

--- A function that asks once for each key: what names do not change.
local function remember(ask)
  local known, n = {}, 0
  local function miss(key)
    if n == REMEMBERED then
      for k in next, known do known[k] = nil end
      n = 0
    end
    local text = ask(key)
    known[key], n = text, n + 1
    return text
  end
  return function(key) return known[key] or miss(key) end
end

X.ksymbol = remember(native.ksymbol)
X.syscall_name = remember(native.syscall_name)
X.exit_reason = remember(native.exit_reason)
local execute = os.execute
function X.system(command)
  local _, _, status = execute(command)
  return status or -1
end

-- Every name above as a local, for LuaJIT to see constants.
local names, values = {}, {}
for name in next, X do names[#names + 1] = name end
table.sort(names)
for i, name in next, names do values[i] = "X." .. name end
local HEAD = "local X, cursor, is_live, other, first, last = ... local " .. concat(names, ", ") .. " = " .. concat(values, ", ") .. "\n"

local slot_pointer = typeof "const perilune_slot *"

--- The slot behind an `e` that is not the event being handled: one that a pending state keeps.
local function other(e, first, last)
  local kept = slot_of(e)
  if kept ~= nil then
    local s = cast(slot_pointer, kept)
    if s.ev >= first and s.ev <= last then return s end
  end
  return error("an expression takes the record `e` of its evsel, during its handler, or one that a pending state keeps", 3)
end

-- A handler's own record is under the cursor.
local EVENT = HEAD .. [[
return function(e)
  local s = cursor.s
  local role = s.ev
  if not is_live(e) or role < first or role > last then s = other(e, first, last) end
  return %s
end]]

--- The function `e → value…` of an evsel whose roles begin at `first`; `codes` has the code for each role.
function exports.expression_of(first, codes)
  local last = first + #codes - 1
  local equal = true
  for i = 2, #codes do equal = equal and codes[i] == codes[1] end
  if equal then
    local make, why = loadstring(EVENT:gsub("%%s", function() return codes[1] end), "=perilune:expression")
    if not make then return nil, why end
    return make(X, cursor, is_live, other, first, last)
  end
  local of = {}
  for i, code in next, codes do
    local f, why = exports.expression_of(first + i - 1, { code })
    if not f then return nil, why end
    of[first + i - 1] = f
  end
  return function(e)
    local f = of[is_live(e) and cursor.s.ev or other(e, first, last).ev]
    if not f then other(e, first, last) end
    return f(e)
  end
end

-- It stands in the walk, before the handler: the cursor is on a record of its role. With `...` it is part of the traces there.
local PREDICATE = HEAD .. "return function(...) local s = cursor.s return %s end"

--- The predicate of one role, from the code of a condition; `met(ctx, n, s)` in it asks the filter `n` of the context.
function exports.predicate_of(code)
  local make, why = loadstring(PREDICATE:gsub("%%s", function() return code end), "=perilune:filter")
  if not make then return nil, why end
  return make(X, cursor)
end

--- The text of a 64-bit value, as `exact` wrote it, in a box again.
local function key_of(text)
  local sign, digits = nil, nil
  if type(text) == "string" then sign, digits = text:match "^(-?)0x(%x+)$" end
  if not digits or #digits > 16 then return undefined_long() end
  local high, low = digits:sub(1, -9), digits:sub(-8)
  local bits = lshift(i64(tonumber(high, 16) or 0), 32) + i64(tonumber(low, 16))
  return sign == "-" and -bits or bits
end

--- The function `key → value` of an expression over a key.
function exports.expression_of_key(code)
  local make, why = loadstring("local key_of = select(7, ...) " .. HEAD .. [[
return function(key)
  if type(key) == "number" then key = i64(key) else key = key_of(key) end
  return ]] .. code .. "\nend", "=perilune:expression")
  if not make then return nil, why end
  return make(X, cursor, is_live, other, 0, 0, key_of)
end
