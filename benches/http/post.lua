-- POSTs for wrk: wrk … URL -- MODE BODY-FILE [KEYS-FILE]
--   plain    without a key
--   fresh    a new random key of 128 bits each time
--   stored   a random one of the keys in the file
-- At the end it writes lines that begin with "@": name and value.

local before, after, keys, mode

function init(args)
    mode = args[1]
    local body = io.open(args[2], "rb"):read("*a")
    local bytes = { io.open("/dev/urandom", "rb"):read(6):byte(1, 6) }
    local seed = 0
    for _, byte in ipairs(bytes) do
        seed = seed * 256 + byte
    end
    math.randomseed(seed)
    before = "POST /orders HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body
    after = "\r\n\r\n" .. body
    if mode == "stored" then
        keys = {}
        for key in io.lines(args[3]) do
            keys[#keys + 1] = key
        end
    end
end

function request()
    if mode == "plain" then
        return before .. after
    end
    local key
    if mode == "stored" then
        key = keys[math.random(#keys)]
    else
        local random = math.random
        key = string.format("%04x%04x%04x%04x%04x%04x%04x%04x",
            random(0, 65535), random(0, 65535), random(0, 65535), random(0, 65535),
            random(0, 65535), random(0, 65535), random(0, 65535), random(0, 65535))
    end
    return before .. "\r\nIdempotency-Key: " .. key .. after
end

function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
    io.write(string.format("@ requests %d\n", summary.requests))
    io.write(string.format("@ failed %d\n", failed))
    io.write(string.format("@ requests_per_s %.1f\n", summary.requests / summary.duration * 1e6))
    io.write(string.format("@ p50_us %d\n", latency:percentile(50)))
    io.write(string.format("@ p99_us %d\n", latency:percentile(99)))
end
