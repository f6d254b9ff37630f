--- Block devices and the requests to them: kinds, filters and places.
local delays, still_open = require "delays", require "still_open"

local block = {}

local KINDS = { R = "read", W = "write", D = "discard", F = "flush+write" }

--- Returns the kind of a request from the first letter of `rwbs`, given as a number:
--- `expr_of("rwbs[0]", ev)`.
function block.kind(letter)
  local text = string.char(letter)
  return KINDS[text] or text
end

--- Returns the filter for events of a list of disks: names in /dev, and numbers as lsblk prints
--- them, `vda,259:3`. `dev` has 12 bits of major and 20 bits of minor number. A partition is an
--- error: requests are those of its disk.
function block.filter(option, devices)
  local terms = {}
  for device in devices:gmatch "[^,]+" do
    local major, minor = device:match "^(%d+):(%d+)$"
    local known_major, known_minor, disk = block_device(device)
    if disk then
      local why = "%s: '%s' is a partition, and requests are those of its disk; use '%s'"
      error(why:format(option, device, disk), 0)
    end
    if not major then major, minor = known_major, known_minor end
    if not major then
      local why = "%s: '%s' is not a block device of this machine; lsblk lists names and numbers, "
        .. "and --replay takes numbers only"
      error(why:format(option, device), 0)
    end
    terms[#terms + 1] = ("dev == %d"):format(major * 2 ^ 20 + minor)
  end
  return table.concat(terms, " || ")
end

--- Declares an event of requests that have sectors, to the devices of `opt.device`, of all tasks if
--- `all_tasks`. Returns nil if the event is `optional` and does not exist.
---@return perilune.Evsel?
function block.watch(opt, event, all_tasks, optional)
  local ev = evsel(event, { all_tasks = all_tasks or nil, optional = optional or nil })
  if not ev then return nil end
  ev:filter "nr_sector > 0"
  return opt.device and ev:filter(block.filter("--device", opt.device)) or ev
end

--- Adds the times from issue to completion of requests to `times`, a latency, and to `spread`, a
--- histogram, both with the columns device and operation. `long`, if given, takes the requests: all
--- of them from records, those longer than `opt.than` if the kernel measures.
---@param times perilune.Latency
---@param spread perilune.Hist
---@param long? fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any)
---@return fun(): perilune.Hist, perilune.Latency the results for `m.deinit`
function block.measure_requests(opt, times, spread, long)
  local issue = assert(block.watch(opt, "block:block_rq_issue"))
  local complete = assert(block.watch(opt, "block:block_rq_complete", true))
  -- The driver returns it, and it is issued again.
  local requeue = block.watch(opt, "block:block_rq_requeue", true, true)
  local start, finish = { issue, rows = { [2] = "rwbs[0]" } }, { complete, rows = { "dev" } }
  local open = times:between(start, finish, {
    key = { "dev", "sector" }, histogram = { spread, columns = { 1, 2 } }, drops = requeue,
    keep = opt.than ~= nil, needs = delays.needs_records(opt), pair = long, than = opt.than,
    records = function(requests)
      local place, kind = block.places(), expr_of("rwbs[0]", issue, "number")
      local function completed(e)
        local request = requests:close(place(e.dev, e.sector), e)
        if not request then return end
        local delay, dev, letter = request.delay, e.dev, request.column2
        spread:add(delay, dev, letter)
        times:add(delay, dev, letter)
        if long then long(request, e, delay, dev, letter) end
      end
      local function issued(e) requests:open(place(e.dev, e.sector), e, kind(e)) end
      local handlers = { { complete, completed }, { issue, issued } } ---@type table[]
      if requeue then
        handlers[3] = { requeue, function(e) requests:close(place(e.dev, e.sector), e) end }
      end
      return handlers
    end,
  })
  return function()
    local left = open:len()
    if left > 0 then note("requests without a completion yet, which are not shown: %d", left) end
    return spread, times
  end
end

--- Returns a function `watch(event, handler)` that declares an event of all requests, `optional` if
--- it is not on every machine, and calls `handler(e, place, kind)`: the place identifies the
--- request in `requests`. Requests that are merged into others end there. If a merge moves the
--- beginning of a request, `moved(place, e, state)` opens it again. Of "block:block_getrq" it
--- declares the requests of watched tasks only.
---@param requests perilune.Pending
---@param place fun(dev: number, sector: number): number
---@param moved fun(place: number, e: perilune.Record, state: perilune.State)
---@return fun(event: string, handler: fun(e: perilune.Record, place: number, kind: number))
function block.watcher(opt, requests, place, moved)
  local function watch(event, handler, optional)
    local ev = block.watch(opt, event, event ~= "block:block_getrq", optional)
    if not ev then return end
    local kind = expr_of("rwbs[0]", ev, "number")
    ev:each(function(e) handler(e, place(e.dev, e.sector), kind(e)) end)
  end
  watch("block:block_rq_merge", function(e, at) requests:close(at, e) end, true)
  watch("block:block_bio_frontmerge", function(e, at)
    local state = requests:close(at + e.nr_sector, e)
    if state then moved(at, e, state) end
  end, true)
  return watch
end

--- Returns a report of the open requests, whose states have a `kind` and a `stage`; nil without
--- any.
---@param requests perilune.Pending
---@param at fun(place: number): number, number device and sector of a key
---@return perilune.Report?
function block.not_completed(requests, at)
  local columns = { { "device", device }, "sector", { "kind", block.kind }, "stage" }
  return still_open.report("not completed", columns, requests, function(k, r)
    local dev, sector = at(k)
    return { dev, sector, r.kind, r.stage }
  end)
end

-- Maximum number of sectors of a device. The numbers of 512 devices are then exact as doubles.
local SECTORS = 2 ^ 44

--- Returns a function that maps each sector of each device to a unique number:
--- `place(e.dev, e.sector)`; and one that maps the number back: `local dev, sector = at(number)`.
---@return fun(dev: number, sector: number): number place
---@return fun(number: number): number, number at
function block.places()
  local numbers, devices, count = {}, {}, 0
  local function place(dev, sector)
    local number = numbers[dev]
    if not number then
      number, count = count, count + 1
      numbers[dev], devices[number] = number, dev
    end
    return number * SECTORS + sector
  end
  local function at(number)
    return devices[math.floor(number / SECTORS)], number % SECTORS
  end
  return place, at
end

return block
