--- Detects calls inside calls with the same key, which a relation of starts and ends cannot pair.
local recursion = {}

local MANY = 20                                            -- ends without a start, before a note

--- The explanation.
recursion.NOTE = "many starts were replaced by another with the same key, and many ends have no "
  .. "start: the calls are recursive or nested; `perilune nested -e BEGIN,END` measures each of "
  .. "them"

--- Returns the callbacks `start`, `paired` and `single` of `on`. They count, and explain once that
--- starts replace others and as many ends have no start: calls inside calls with the same key.
function recursion.watch(on)
  local starts, pairs, singles, explained = 0, 0, 0, false
  local function start() starts = starts + 1 end
  local function paired() pairs = pairs + 1 end
  local function single()
    singles = singles + 1
    if explained or singles % MANY > 0 then return end
    if starts - pairs - on.waits:len() < singles / 2 then return end
    explained = true
    note(recursion.NOTE)
  end
  return start, paired, single
end

return recursion
