--- The function `span`, which adds something that lasted to the timeline of --perfetto.
local _, view, native, exports = ...

local add, enabled, plain = native.add, native.enabled, exports.plain
local cursor, type, error, next = view.cursor, type, error, next

-- Fields of a span and their types.
local FIELDS = { name = "string", delay = "number", time = "number", tid = "number",
  track = "string", fields = "table" }

local function check(it)
  if type(it) ~= "table" then error(("span takes a table, not a %s"):format(type(it)), 3) end
  for key, value in next, it do
    local wanted = FIELDS[key]
    if not wanted then
      error(("span has no field '%s'; its fields: name, delay, time, tid, track, fields")
        :format(tostring(key)), 3)
    end
    if type(value) ~= wanted then
      error(("span: %s is a %s, not a %s"):format(key, wanted, type(value)), 3)
    end
  end
  if not it.name or not it.delay then error("span needs a name and a delay", 3) end
  if not (it.delay >= 0) then error("span: delay must not be negative", 3) end
end

--- Adds a span; does nothing without --perfetto.
function exports.span(it)
  check(it)
  if not enabled() then return end
  local s = cursor.s
  local time, tid = it.time or s.time, it.tid
  if not tid then
    if s.time < 0 then error("span outside of a handler needs a tid", 2) end
    tid = s.tid
  end
  add(it.name, it.track, time, it.delay, tid, s.cpu, it.fields and plain(it.fields))
end
