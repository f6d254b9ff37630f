--- Nested calls, added up by their call path.
local calls = {}

-- Maximum number of call paths. Further calls are counted for the call that they are nested in.
local NODES = 4096

---@class perilune.calls.Tree
---@field times perilune.Latency total times of calls, by node
---@field own table<integer, number> self times in nanoseconds, by node
---@field calls perilune.Pending the open calls, by key
---@field names table<integer, string>
---@field nodes table<integer, table<integer, integer?>> the node of each call inside a node
---@field parents table<integer, integer>
---@field kinds table<integer, integer>
---@field count integer
local Tree = {}
Tree.__index = Tree

--- Returns an empty tree. With `keep`, the events that begin calls are kept. `uretprobes` as for
--- `pending`.
---@param keep? any
---@param uretprobes? boolean
---@return perilune.calls.Tree
function calls.tree(keep, uretprobes)
  local nodes = { names = {}, nodes = { [0] = {} }, parents = {}, kinds = {}, own = {}, count = 0 }
  nodes.times = latency { "node", keep = false }
  nodes.calls = pending { "call", "node", "inner", key = "any", nested = true,
    uretprobes = uretprobes, keep = keep }
  return setmetatable(nodes, Tree)
end

--- Names a call. Its number is an integer from 1 on.
function Tree:call(number, name) self.names[number] = name end

--- Returns the node of a call that is nested in a node; 0 is the root.
---@param parent integer
---@param call integer
---@return integer
function Tree:inside(parent, call)
  local node = self.nodes[parent][call]
  if node then return node end
  if self.count == NODES then return parent end
  node = self.count + 1
  self.count, self.nodes[parent][call], self.nodes[node] = node, node, {}
  self.parents[node], self.kinds[node], self.own[node] = parent, call, 0
  return node
end

--- Begins a call, which is nested in the open call with the same key.
---@param key any
---@param e perilune.Record
---@param call integer
function Tree:open(key, e, call)
  local outer = self.calls:get(key)
  self.calls:open(key, e, call, self:inside(outer and outer.node or 0, call), 0)
end

--- Ends a call and adds its times. Returns its state; nil if none is open.
---@param key any
---@param e perilune.Record
---@param call integer
---@return perilune.State?
function Tree:close(key, e, call)
  local ended = self.calls:close(key, e, call)
  if not ended then return nil end
  local total, outer = ended.delay, self.calls:get(key)
  if outer then outer.inner = outer.inner + total end
  local node, own = ended.node --[[@as integer]], self.own
  self.times:add(total, node)
  if node ~= 0 then own[node] = own[node] + total - ended.inner end
  return ended
end

local COLUMNS = {
  { "call", align = "left" }, { "calls", width = 9 },
  { "total(us)", width = 16, decimals = 3 }, { "self(us)", width = 16, decimals = 3 },
  { "avg(us)", width = 12, decimals = 3 }, { "p50(us)", width = 9, decimals = 1 },
  { "p95(us)", width = 9, decimals = 1 }, { "p99(us)", width = 9, decimals = 1 },
  { "max(us)", width = 12, decimals = 3 },
}

-- A call that has not ended, but contains calls that did.
---@type table
local NOTHING = { avg = 0, p50 = 0, p95 = 0, p99 = 0, max = 0 }

--- Returns a report of the calls that ended since the last report, the longest first, and clears
--- the times. Returns nil if no call ended.
function Tree:report()
  local rows, inside = {}, {} ---@type table<integer, table?>, table<integer, integer[]?>
  for node, s in self.times:each() do
    if node ~= 0 then rows[node] = { n = s.calls, total = s.total, own = self.own[node], s = s } end
  end
  self.times:clear()
  for node in ipairs(self.own) do self.own[node] = 0 end
  -- A call that is still open has no row yet, but may contain calls that ended.
  for node = self.count, 1, -1 do
    if rows[node] or inside[node] then
      rows[node] = rows[node] or { n = 0, total = 0, own = 0 }
      local parent = self.parents[node]
      inside[parent] = inside[parent] or {}
      table.insert(inside[parent], node)
    end
  end
  local shown = {}
  local function show(parent, indent)
    local list = inside[parent] or {}
    table.sort(list, function(a, b)
      if rows[a].total ~= rows[b].total then return rows[a].total > rows[b].total end
      return a < b
    end)
    for _, node in ipairs(list) do
      local row = rows[node]
      local name = indent .. self.names[self.kinds[node]]
      local s = row.s or NOTHING
      shown[#shown + 1] = { name, row.n, row.total / 1e3, row.own / 1e3, s.avg / 1e3, s.p50 / 1e3,
        s.p95 / 1e3, s.p99 / 1e3, s.max / 1e3 }
      show(node, indent .. "  ")
    end
  end
  show(0, "")
  return #shown > 0 and report("calls", COLUMNS, shown) or nil
end

return calls
