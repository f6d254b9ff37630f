--- Calls inside calls, added up by the way that led to them.
local calls = {}

local NODES = 4096                                         -- ways at most; those beyond count for the call that they are inside of

---@class perilune.calls.Tree
---@field times perilune.Kv
---@field names table<integer, string>
---@field nodes table<integer, integer?>
---@field parents table<integer, integer>
---@field kinds table<integer, integer>
---@field count integer
local Tree = {}
Tree.__index = Tree

--- A tree without calls.
---@return perilune.calls.Tree
function calls.tree()
  local times = kv { "node", sums = { "calls", "total", "self" } }
  return setmetatable({ times = times, names = {}, nodes = {}, parents = {}, kinds = {}, count = 0 }, Tree)
end

--- Names a call: a whole number from 1 on, below 1000.
function Tree:call(number, name) self.names[number] = name end

--- The node of a call inside of a node; 0 is the root.
---@param parent integer
---@param call integer
---@return integer
function Tree:inside(parent, call)
  local at = parent * 1000 + call
  local node = self.nodes[at]
  if node then return node end
  if self.count == NODES then return parent end
  node = self.count + 1
  self.count, self.nodes[at], self.parents[node], self.kinds[node] = node, node, parent, call
  return node
end

--- Adds a call of a node, in nanoseconds.
function Tree:add(node, total, own) self.times:add(node, 1, total, own) end

local COLUMNS = {
  { "call", align = "left" }, { "calls", width = 9 }, { "total(us)", width = 16, decimals = 3 }, { "self(us)", width = 16, decimals = 3 },
  { "avg(us)", width = 12, decimals = 3 },
}

--- The tree of what ended since the last one, the longest first, and begins anew; nil when nothing did.
function Tree:report()
  local rows, inside = {}, {}
  for node, n, total, own in self.times:each() do
    if node ~= 0 then rows[node] = { n = n, total = total, own = own } end
  end
  self.times:clear()
  -- A call that is still open has no row of its own yet, but the way leads through it.
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
      shown[#shown + 1] = { indent .. self.names[self.kinds[node]], row.n, row.total / 1e3, row.own / 1e3, row.n > 0 and row.total / row.n / 1e3 or 0 }
      show(node, indent .. "  ")
    end
  end
  show(0, "")
  return #shown > 0 and report("calls", COLUMNS, shown) or nil
end

return calls
