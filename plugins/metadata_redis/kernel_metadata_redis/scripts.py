"""Scripts that run inside Redis: each is one atomic step, which no other client's command can interrupt.

A table is one hash. The claim is a hash beside it: `token` and `owner` of the head that may write, its `epoch`, and
the number and answer of its last `request` whose repetition would answer otherwise. `tables` is the set of all tables.
Redis checks memory, role and disk before a script's first write, so that a script writes all or nothing.
"""

from __future__ import annotations

CHANGE = """
local claim = redis.call('HMGET', KEYS[1], 'token', 'owner', 'request', 'answer')
if (claim[1] or '') ~= ARGV[1] then return {'refused', claim[2]} end
if claim[3] == ARGV[2] then return {'done', tonumber(claim[4])} end
local answer = 1
if ARGV[3] == 'delete' then
    answer = redis.call('HDEL', KEYS[2], ARGV[4])
else
    if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('SADD', KEYS[3], KEYS[2]) end
    if ARGV[3] == 'put_new' then
        answer = redis.call('HSETNX', KEYS[2], ARGV[4], ARGV[5])
    else
        for first = 4, #ARGV, 1000 do
            redis.call('HSET', KEYS[2], unpack(ARGV, first, math.min(first + 999, #ARGV)))
        end
    end
end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'request', ARGV[2], 'answer', answer) end
return {'done', answer}
"""
"""Keys: claim, table, tables. Arguments: token, request ('' if it may be repeated), verb, then key and value pairs."""

CLAIM = """
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'owner', ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'epoch', 1)
"""
"""Keys: claim. Arguments: token, owner. Returns the epoch."""

SCAN = """
local found = {}
for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(key, 1, #ARGV[1]) == ARGV[1] then
        found[#found + 1] = key
        found[#found + 1] = redis.call('HGET', KEYS[1], key)
    end
end
return found
"""
"""Keys: table. Arguments: prefix. Returns keys and values in turn, in no order."""

DISCARD = """
if (redis.call('HGET', KEYS[1], 'token') or '') ~= ARGV[1] then return 0 end
for _, table in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('DEL', table) end
return redis.call('DEL', KEYS[1], KEYS[2])
"""
"""Keys: claim, tables. Arguments: token."""
