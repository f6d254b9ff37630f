--- Reasons of migrations: why the scheduler moved a task to another CPU, by the kernel's functions.
local migration = {}

-- The function that called set_task_cpu, or one that called it (kernel/sched/*.c; older kernels
-- have other names). The first match counts.
local REASONS = {
  { "wake_up_new_task", "fork" }, { "try_to_wake_up", "wakeup" },
  { "newidle", "idle balance" }, { "idle_balance", "idle balance" },
  { "active_load_balance", "active balance" }, { "balance_rq", "load balance" },
  { "load_balance", "load balance" }, { "migrate_swap", "NUMA" },
  { "push_[rd]", "real-time push" }, { "pull_[rd]", "real-time pull" },
  { "balance_push", "CPU offline" },
  -- A thread of the migration stopper moves the task for sched_setaffinity, cpusets and execve.
  { "migration_cpu_stop", "affinity or exec" }, { "move_queued_task", "affinity or exec" },
  { "__set_cpus_allowed", "affinity or exec" },
}

--- Innermost frames that show the reason, as `sample_max_stack` of sched:sched_migrate_task.
migration.FRAMES = 5

--- Returns a function that returns the reason for a stack of `FRAMES` kernel frames. It looks up
--- each stack once: there are some dozen.
---@return fun(stack: integer): string
function migration.reasons()
  local known = {} ---@type table<integer, string?>
  return function(stack)
    local reason = known[stack]
    if reason then return reason end
    local frames = stack_text(stack)
    for _, pair in ipairs(REASONS) do
      if not reason and frames:find(pair[1]) then reason = pair[2] end
    end
    reason = reason or "other"
    known[stack] = reason
    return reason
  end
end

return migration
