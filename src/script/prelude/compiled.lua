--- Reports what LuaJIT could not compile of a script, and the number of traces. Interpreted code
-- costs about ten times as much, and nothing else shows it.
--
-- LuaJIT reports each attempt to compile. Most aborted attempts are harmless, as the next one
-- succeeds. Only instructions without machine code are reported, since no attempt gets past them.
-- Loops and calls into C, which end a trace, were measured to cost little or nothing, and are not
-- reported.
local jit, util = require "jit", require "jit.util"
local funcinfo, funcbc, funck, rshift = util.funcinfo, util.funcbc, util.funck, require "bit".rshift

-- Numbers from lj_traceerr.h and lj_bc.h. UCLO closes the upvalues of functions that FNEW creates:
-- reporting FNEW is enough.
local NO_CODE, UCLO, FNEW = 7, 50, 51

local MOST = 16
local lines, reported = {}, {}
local counts = { stop = 0, abort = 0, flush = 0 }

-- Called when LuaJIT compiles, which is rare once a run has warmed up.
jit.attach(function(event, _, f, pc, code, instruction)
  if counts[event] then counts[event] = counts[event] + 1 end
  if event ~= "abort" or code ~= NO_CODE or instruction == UCLO or not f or #lines == MOST then
    return
  end
  local at = funcinfo(f, pc)
  local line, why =
    at.currentline, "LuaJIT cannot compile this operation; write it differently"
  if instruction == FNEW then
    -- The line of the instruction is the last line of the function: uses the first one.
    line = funcinfo(funck(f, -rshift(funcbc(f, pc), 16) - 1)).linedefined
    why = "a function is created for each event; create it once, in init"
  end
  local place = at.loc:gsub("%d+$", line)
  -- Skips the runtime's own chunks.
  if reported[place] or at.source:find "^=perilune:" then return end
  reported[place] = true
  lines[#lines + 1] = place .. ": is not compiled: " .. why
end, "trace")

--- Returns a line for each place, and the number of traces made, aborted and flushed.
return function() return lines, counts.stop, counts.abort, counts.flush end
