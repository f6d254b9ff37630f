--- The roles of events in successive stages: an event of two stages has two. Finds the key of each
--- and declares the evsels, which roles share where possible.
local roles = {}

-- Keys that are threads. A start is dropped when its thread ends. With -p, events are selected by
-- the thread in the field of ABOUT, not by the thread that raised them.
local OWN = { _tid = true, __pid = true }
local ABOUT = { pid = true, prev_pid = true, next_pid = true }
local WAKEUP = { ["sched:sched_wakeup"] = true, ["sched:sched_waking"] = true }

roles.SWITCH = "sched:sched_switch"

--- Returns the key of events without key=: -k, else the thread with -p, else the CPU.
function roles.default_key(opt) return opt.key or (per_thread() and "_tid" or "_cpu") end

--- Returns the key of a selector: its expression, the value that is not a key (nil if all are), and
--- the field with the thread that the event is about, if the key is that field.
function roles.key(s, opt)
  local key = s.attr.key or roles.default_key(opt)
  return key, (OWN[key] or ABOUT[key]) and 0 or nil, ABOUT[key] and key or nil
end

--- Returns whether a role is a wakeup whose key is the woken thread.
function roles.is_wakeup(role) return WAKEUP[role.name] and role.key == "pid" end

--- Returns whether a filter only compares numbers, so that it has the same meaning in C.
-- Two evsels of one event each get a copy of the records they share, at about 20 ns per record. If
-- one role of an event takes all records, roles with a plain filter share its evsel and evaluate
-- their filter as an expression.
local function is_plain(filter, fields)
  for word in filter:gmatch "[%a_][%w_]*" do
    if not fields[word] then return false end
  end
  return filter:match "^[%w_%s&|()=!<>]+$" ~= nil
end

--- Returns the attributes of a selector that change how its event is opened, and the options of a
--- monitor, as a key. Selectors with different keys cannot share an evsel.
local function opened_as(s)
  local attr = s.attr
  return ("\0%s\0%s\0%s\0%s\0%s\0%s"):format(attr.cpus or "", attr.max_stack or "",
    attr.alias or "", attr.freq or "", attr.period or "", s.options or "")
end
local ANYHOW = opened_as { attr = {} }

--- Returns the roles of all events of all stages, in stage order, and the stages. Optional: the
--- expression `on.key(selector)`; `on.stacks`, whether the events of the first stage take their
--- stacks; `on.all_tasks`, whether the last stage is taken from all tasks.
function roles.of_groups(groups, opt, on)
  local all, stages, by_name = {}, {}, {}
  for i, group in ipairs(groups) do
    local stage = { threads = i < #groups }
    stages[i] = stage
    for _, s in ipairs(group) do
      local typed = s
      if type(s) == "string" then s = { name = s, attr = {} } end
      if not s.attr.untraced then
        local key = on.key and on.key(s) or s.attr.key or roles.default_key(opt)
        local event = by_name[s.name] or { stack = false, whole = false }
        local role = {
          typed = typed, selector = s, name = s.name, filter = s.filter, event = event,
          key = key, thread = OWN[key] or ABOUT[key], number = #all + 1,
          from = stages[i - 1], to = i < #groups and stage or nil, stage = stage,
          all_tasks = i == #groups and on.all_tasks,
        }
        by_name[s.name], all[#all + 1] = event, role
        event.stack = event.stack or s.stack or on.stacks and i == 1
        event.whole = event.whole or not s.filter and opened_as(s) == ANYHOW
        stage.threads = stage.threads and role.thread
      end
    end
  end
  return all, stages
end

--- Returns whether the task that each CPU runs is known: every switch of whole CPUs is an event.
function roles.have_every_switch(all)
  for _, role in ipairs(all) do
    if role.name == roles.SWITCH and role.event.whole and not some_tasks() then return true end
  end
  return false
end

--- Returns the evsel of a role, and if it gets more events than the role, the expression that is
--- not 0 for the events of the role. Reuses a declared evsel where possible.
local function evsel_of(role, declared, optional)
  local watched, task = some_tasks(), ABOUT[role.key] and role.key or nil
  local how = opened_as(role.selector)
  local function declare(typed, filter)
    local same = role.name .. "\0" .. (watched and task or "") .. how .. "\0" .. (filter or "")
    local d = declared[same]
    if not d then
      local ev = evsel(typed, {
        stack = role.event.stack, task = task, all_tasks = role.all_tasks or nil,
        optional = optional,
      })
      if not ev then return end
      d = { ev = ev, whole = not filter and how == ANYHOW, keys = {} }
      declared[same], declared[#declared + 1] = d, d
    end
    return d
  end
  if role.filter and role.event.whole and not watched and how == ANYHOW then
    local all = declare(role.name)
    if is_plain(role.filter, all.ev.fields) then
      return all, ("(%s) != 0"):format(role.filter)
    end
  end
  return declare(role.typed, role.filter)
end

--- Declares the events of all roles, the last stage first, so that an event of two stages is an end
--- before it is a start. Calls `take(role, d, where)` for each, with its evsel as `d.ev`; `where`
--- is an expression that is not 0 for the events of the role, or nil. With `optional`, events may
--- be missing on this machine, but not all of a stage. Returns the function that returns the name
--- for the number of a role, and the list of `d`.
function roles.declare(all, optional, take)
  local declared, names = {}, {}
  for i = #all, 1, -1 do
    local role = all[i]
    names[i] = role.name
    -- The first event of a stage is required if no later one exists.
    local is_first = not (all[i - 1] and all[i - 1].stage == role.stage)
    local d, where = evsel_of(role, declared, optional and (role.stage.there or not is_first))
    if d then
      role.stage.there = true
      take(role, d, where)
    end
  end
  return function(number) return names[number] end, declared
end

--- Returns the expression that also requires another one to be not 0.
function roles.unless_zero(where, text)
  return (where and where .. " && " or "") .. ("(%s) != 0"):format(text)
end

return roles
