--- What LuaJIT makes of a script: how many traces, and what it cannot compile. Such an event costs
-- some ten times what it could, and nothing else tells.
--
-- LuaJIT reports each attempt to compile. Most that are given up mean nothing, as the next one succeeds; kept is what no attempt
-- gets over: instructions that it has no machine code for. Loops and calls into C, which end a trace, were measured to cost
-- little or nothing, and are not told.
local jit, util = require "jit", require "jit.util"
local funcinfo, funcbc, funck, rshift = util.funcinfo, util.funcbc, util.funck, require "bit".rshift

-- Of lj_traceerr.h and lj_bc.h, which LuaJIT gives as numbers. UCLO is the end of what FNEW has begun.
local NO_CODE, UCLO, FNEW = 7, 50, 51

local MOST = 16
local lines, told = {}, {}
local counts = { stop = 0, abort = 0, flush = 0 }

-- It is called when LuaJIT compiles, and so hardly ever once a run goes on.
jit.attach(function(event, _, f, pc, code, instruction)
  if counts[event] then counts[event] = counts[event] + 1 end
  if event ~= "abort" or code ~= NO_CODE or instruction == UCLO or not f or #lines == MOST then return end
  local at = funcinfo(f, pc)
  local line, why = at.currentline, "LuaJIT has no machine code for what stands here; write it otherwise"
  if instruction == FNEW then
    -- The instruction stands on the function's last line.
    line = funcinfo(funck(f, -rshift(funcbc(f, pc), 16) - 1)).linedefined
    why = "a function is made for each event; make it once, in init"
  end
  local place = at.loc:gsub("%d+$", line)
  -- The runtime's own chunks are called so; they know what they do.
  if told[place] or at.source:find "^=perilune:" then return end
  told[place] = true
  lines[#lines + 1] = place .. ": is not compiled: " .. why
end, "trace")

--- A line for each place; and how many traces were made, given up, and thrown away.
return function() return lines, counts.stop, counts.abort, counts.flush end
