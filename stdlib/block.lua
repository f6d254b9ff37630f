--- Block devices and the requests to them: kinds, filters and places.
local block = {}

local KINDS = { R = "read", W = "write", D = "discard", F = "flush+write" }

--- Returns the kind of a request from the first letter of `rwbs`, given as a number:
--- `expr_of("rwbs[0]", ev)`.
function block.kind(letter)
  local text = string.char(letter)
  return KINDS[text] or text
end

--- Returns the filter for events of a list of devices, `8:0,259:3`, as lsblk prints their numbers.
--- `dev` has 12 bits of major and 20 bits of minor number.
function block.filter(option, devices)
  local terms = {}
  for device in devices:gmatch "[^,]+" do
    local major, minor = device:match "^(%d+):(%d+)$"
    if not major then
      local why = "%s: '%s' is not MAJOR:MINOR, such as 259:0; lsblk shows them"
      error(why:format(option, device), 0)
    end
    terms[#terms + 1] = ("dev == %d"):format(major * 2 ^ 20 + minor)
  end
  return table.concat(terms, " || ")
end

-- Maximum number of sectors of a device. The numbers of 512 devices are then exact as doubles.
local SECTORS = 2 ^ 44

--- Returns a function that maps each sector of each device to a unique number:
--- `place(e.dev, e.sector)`.
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
