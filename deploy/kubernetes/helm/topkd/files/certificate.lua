-- Replaces HAProxy's certificate when the file TOPK_TLS_CERT or its key file
-- changes.
local path = os.getenv("TOPK_TLS_CERT")

-- Returns the certificate and the key, which may be in a separate file.
local function read()
  local text = ""
  for _, name in ipairs({path, path .. ".key"}) do
    local file = io.open(name)
    if file then
      text = text .. file:read("a") .. "\n"
      file:close()
    end
  end
  return text
end

core.register_task(function()
  local used = read()
  local last = used
  while true do
    core.sleep(1)
    local now = read()
    -- If the files have just changed, they may not match yet.
    if now == last and now ~= used then
      used = now
      local ok, why = pcall(CertCache.set, {filename = path, crt = now})
      core.log(core.notice, ok and path .. " has changed and is now in use" or
               path .. " has changed and is not valid: " .. why)
    end
    last = now
  end
end)
