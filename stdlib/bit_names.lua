--- Names of the bits of a number.
local bit_names = {}

local band, bnot, tobit = bit.band, bit.bnot, bit.tobit

--- Returns the low 32 bits of a number as an integer of `bit`. Unlike `bit.tobit`, it is exact for
--- any integer: an argument of a system call has 64 bits, of which an `int` uses 32.
---@param number integer
---@return integer
function bit_names.low(number) return tobit(number % 0x100000000) end

--- Returns the names of the bits that are set, joined by `|`; bits without a name follow as a
--- hexadecimal number: with `{ { 1, "READ" }, { 2, "WRITE" } }`, 7 is `READ|WRITE|0x4`. Of names
--- that share bits, the one with more bits is first in the list. `found` is a list of names that
--- precede them. If no bit is set and `found` is empty, the text is `zero`, or else `0`.
---@param bits integer of 32 bits
---@param names [integer, string][]
---@param zero? string
---@param found? string[]
---@return string
function bit_names.text(bits, names, zero, found)
  local texts, rest = found or {}, tobit(bits)
  for _, name in ipairs(names) do
    local mask = tobit(name[1])
    if band(rest, mask) == mask then texts[#texts + 1], rest = name[2], band(rest, bnot(mask)) end
  end
  if rest ~= 0 then texts[#texts + 1] = hex(rest % 0x100000000) end
  return #texts > 0 and table.concat(texts, "|") or zero or "0"
end

return bit_names
