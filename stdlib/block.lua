--- Words of block devices and of the requests to them.
local block = {}

local KINDS = { R = "read", W = "write", D = "discard", F = "flush+write" }

--- What a request does, by the first letter of `rwbs`, as a number: `expr_of("rwbs[0]", ev)`.
function block.kind(letter)
  local text = string.char(letter)
  return KINDS[text] or text
end

--- The filter for events of devices that are listed as lsblk numbers them, `8:0,259:3`. In `dev` the kernel has 12 bits of major
--- and 20 of minor number.
function block.filter(option, devices)
  local terms = {}
  for device in devices:gmatch "[^,]+" do
    local major, minor = device:match "^(%d+):(%d+)$"
    if not major then error(("%s: '%s' is no MAJOR:MINOR, such as 259:0; lsblk shows them"):format(option, device), 0) end
    terms[#terms + 1] = ("dev == %d"):format(major * 2 ^ 20 + minor)
  end
  return table.concat(terms, " || ")
end

local SECTORS = 2 ^ 44                                     -- of a device; with it, places on 512 devices are exact as doubles

--- A function that gives each sector of each device a number of its own: `place(e.dev, e.sector)`.
function block.places()
  local numbers, count = {}, 0
  return function(dev, sector)
    local number = numbers[dev]
    if not number then
      number, count = count, count + 1
      numbers[dev] = number
    end
    return number * SECTORS + sector
  end
end

return block
