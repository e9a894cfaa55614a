-- The two AEADs of N-PAMP, for npamp.lua: AES-256-GCM (SP 800-38D) and
-- ChaCha20-Poly1305 (RFC 8439), for opening alone. In Lua, because the cipher
-- functions that newer releases of Wireshark offer are not in those that
-- distributions still ship. It is slow, some 300 KiB a second, and leaks through
-- its timing: good for captures, for nothing else.
--
-- open(suite, key, iv, seq, aad, sealed) takes octets as Lua strings and returns
-- the plaintext, or nil where the tag is wrong or the suite unknown.

local bit = bit32 or bit -- Lua 5.2; Wireshark's own
local band, bor, bxor = bit.band, bit.bor, bit.bxor
local lshift, rshift, rol = bit.lshift, bit.rshift, bit.lrotate or bit.rol
local byte, char, sub, rep = string.byte, string.char, string.sub, string.rep
local floor = math.floor

local M = {}

-- Words ---------------------------------------------------------------------

local function be32(s, i)
  local a, b, c, d = byte(s, i, i + 3)
  return bor(lshift(a, 24), lshift(b, 16), lshift(c, 8), d)
end

local function le32(s, i)
  local a, b, c, d = byte(s, i, i + 3)
  return bor(lshift(d, 24), lshift(c, 16), lshift(b, 8), a)
end

local function be_octets(w)
  return char(band(rshift(w, 24), 255), band(rshift(w, 16), 255), band(rshift(w, 8), 255), band(w, 255))
end

local function le_octets(w)
  return char(band(w, 255), band(rshift(w, 8), 255), band(rshift(w, 16), 255), band(rshift(w, 24), 255))
end

-- Lengths as the block that ends what a MAC covers has them.
local function le64(n) return le_octets(n % 0x100000000) .. le_octets(floor(n / 0x100000000)) end
local function be64(n) return be_octets(floor(n / 0x100000000)) .. be_octets(n % 0x100000000) end

-- padded adds zeros up to a whole number of blocks of 16 octets.
local function padded(s) return s .. rep("\0", -#s % 16) end

-- AES-256, encryption alone ---------------------------------------------------

local sbox, table0 = {}, {}
do
  local p, q = 1, 1
  repeat -- p runs through the field, q through the inverses
    p = band(bxor(p, lshift(p, 1), p >= 128 and 0x11B or 0), 255)
    q = bxor(q, lshift(q, 1))
    q = bxor(q, lshift(q, 2))
    q = band(bxor(q, lshift(q, 4)), 255)
    if q >= 128 then q = bxor(q, 9) end
    local s = bxor(q, lshift(q, 1), lshift(q, 2), lshift(q, 3), lshift(q, 4))
    sbox[p] = bxor(band(bxor(s, rshift(s, 8)), 255), 0x63)
  until p == 1
  sbox[0] = 0x63
  for i = 0, 255 do -- SubBytes and MixColumns of a column's first octet
    local s = sbox[i]
    local s2 = band(bxor(lshift(s, 1), s >= 128 and 0x11B or 0), 255)
    table0[i] = bor(lshift(s2, 24), lshift(s, 16), lshift(s, 8), bxor(s2, s))
  end
end

local function subword(w)
  return bor(lshift(sbox[band(rshift(w, 24), 255)], 24), lshift(sbox[band(rshift(w, 16), 255)], 16),
    lshift(sbox[band(rshift(w, 8), 255)], 8), sbox[band(w, 255)])
end

local function expand(key)
  local w, rcon = {}, 1
  for i = 0, 7 do w[i] = be32(key, 4 * i + 1) end
  for i = 8, 59 do
    local t = w[i - 1]
    if i % 8 == 0 then
      t = bxor(subword(rol(t, 8)), lshift(rcon, 24))
      rcon = lshift(rcon, 1)
    elseif i % 8 == 4 then
      t = subword(t)
    end
    w[i] = bxor(w[i - 8], t)
  end
  return w
end

local function encrypt(w, a, b, c, d)
  a, b, c, d = bxor(a, w[0]), bxor(b, w[1]), bxor(c, w[2]), bxor(d, w[3])
  local function column(a, b, c, d, k)
    return bxor(table0[band(rshift(a, 24), 255)], rol(table0[band(rshift(b, 16), 255)], 24),
      rol(table0[band(rshift(c, 8), 255)], 16), rol(table0[band(d, 255)], 8), k)
  end
  for r = 4, 52, 4 do
    a, b, c, d = column(a, b, c, d, w[r]), column(b, c, d, a, w[r + 1]),
      column(c, d, a, b, w[r + 2]), column(d, a, b, c, w[r + 3])
  end
  local function last(a, b, c, d, k)
    return bxor(bor(lshift(sbox[band(rshift(a, 24), 255)], 24), lshift(sbox[band(rshift(b, 16), 255)], 16),
      lshift(sbox[band(rshift(c, 8), 255)], 8), sbox[band(d, 255)]), k)
  end
  return last(a, b, c, d, w[56]), last(b, c, d, a, w[57]), last(c, d, a, b, w[58]), last(d, a, b, c, w[59])
end

-- GCM -------------------------------------------------------------------------

-- ghash returns GHASH of s, a whole number of blocks, under h as four words. It
-- goes by nibbles: products has h times each of 16 values.
local function ghash(h1, h2, h3, h4, s)
  local products = { [0] = { 0, 0, 0, 0 } }
  local function halve(v) -- v times x: a shift right in GCM's order of bits
    local carry = band(v[4], 1)
    return {
      bxor(rshift(v[1], 1), carry == 1 and 0xE1000000 or 0),
      bor(rshift(v[2], 1), lshift(band(v[1], 1), 31)),
      bor(rshift(v[3], 1), lshift(band(v[2], 1), 31)),
      bor(rshift(v[4], 1), lshift(band(v[3], 1), 31)) }
  end
  products[8] = { h1, h2, h3, h4 }
  products[4] = halve(products[8])
  products[2] = halve(products[4])
  products[1] = halve(products[2])
  for _, i in ipairs { 2, 4, 8 } do
    for j = 1, i - 1 do
      local a, b = products[i], products[j]
      products[i + j] = { bxor(a[1], b[1]), bxor(a[2], b[2]), bxor(a[3], b[3]), bxor(a[4], b[4]) }
    end
  end
  local reduction = {} -- of the four bits that a shift by a nibble drops
  for i = 0, 15 do
    local r = { 0, 0, 0, i }
    for _ = 1, 4 do r = halve(r) end
    reduction[i] = r[1]
  end
  local y1, y2, y3, y4 = 0, 0, 0, 0
  for at = 1, #s, 16 do
    local x = { bxor(y1, be32(s, at)), bxor(y2, be32(s, at + 4)), bxor(y3, be32(s, at + 8)), bxor(y4, be32(s, at + 12)) }
    y1, y2, y3, y4 = 0, 0, 0, 0
    for word = 4, 1, -1 do
      local w = x[word]
      for _ = 1, 8 do -- nibbles, the last first
        local dropped = reduction[band(y4, 15)]
        y4 = bor(rshift(y4, 4), lshift(band(y3, 15), 28))
        y3 = bor(rshift(y3, 4), lshift(band(y2, 15), 28))
        y2 = bor(rshift(y2, 4), lshift(band(y1, 15), 28))
        y1 = bxor(rshift(y1, 4), dropped)
        local p = products[band(w, 15)]
        y1, y2, y3, y4 = bxor(y1, p[1]), bxor(y2, p[2]), bxor(y3, p[3]), bxor(y4, p[4])
        w = rshift(w, 4)
      end
    end
  end
  return y1, y2, y3, y4
end

local function gcm(key, nonce, aad, text, tag)
  local w = expand(key)
  local n1, n2, n3 = be32(nonce, 1), be32(nonce, 5), be32(nonce, 9)
  local h1, h2, h3, h4 = encrypt(w, 0, 0, 0, 0)
  local g1, g2, g3, g4 = ghash(h1, h2, h3, h4, padded(aad) .. padded(text) .. be64(8 * #aad) .. be64(8 * #text))
  local e1, e2, e3, e4 = encrypt(w, n1, n2, n3, 1)
  if be_octets(bxor(g1, e1)) .. be_octets(bxor(g2, e2)) .. be_octets(bxor(g3, e3)) .. be_octets(bxor(g4, e4)) ~= tag then
    return nil
  end
  local out, full = {}, padded(text)
  for at = 1, #full, 16 do
    local k1, k2, k3, k4 = encrypt(w, n1, n2, n3, (at - 1) / 16 + 2)
    out[#out + 1] = be_octets(bxor(k1, be32(full, at))) .. be_octets(bxor(k2, be32(full, at + 4))) ..
      be_octets(bxor(k3, be32(full, at + 8))) .. be_octets(bxor(k4, be32(full, at + 12)))
  end
  return sub(table.concat(out), 1, #text)
end

-- ChaCha20-Poly1305 -------------------------------------------------------------

local function chacha(key, counter, nonce)
  local s = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }
  for i = 0, 7 do s[5 + i] = le32(key, 4 * i + 1) end
  s[13] = counter
  for i = 0, 2 do s[14 + i] = le32(nonce, 4 * i + 1) end
  local x = {}
  for i = 1, 16 do x[i] = s[i] end
  local function quarter(a, b, c, d)
    x[a] = band(x[a] + x[b], 0xFFFFFFFF); x[d] = rol(bxor(x[d], x[a]), 16)
    x[c] = band(x[c] + x[d], 0xFFFFFFFF); x[b] = rol(bxor(x[b], x[c]), 12)
    x[a] = band(x[a] + x[b], 0xFFFFFFFF); x[d] = rol(bxor(x[d], x[a]), 8)
    x[c] = band(x[c] + x[d], 0xFFFFFFFF); x[b] = rol(bxor(x[b], x[c]), 7)
  end
  for _ = 1, 10 do
    quarter(1, 5, 9, 13); quarter(2, 6, 10, 14); quarter(3, 7, 11, 15); quarter(4, 8, 12, 16)
    quarter(1, 6, 11, 16); quarter(2, 7, 12, 13); quarter(3, 8, 9, 14); quarter(4, 5, 10, 15)
  end
  for i = 1, 16 do x[i] = band(x[i] + s[i], 0xFFFFFFFF) end
  return x
end

-- poly1305 computes with 17 limbs of 8 bits.
local function poly1305(key, s)
  local r, h = {}, {}
  for i = 0, 15 do r[i], h[i] = byte(key, i + 1), 0 end
  r[16], h[16] = 0, 0
  for _, i in ipairs { 3, 7, 11, 15 } do r[i] = r[i] % 16 end
  for _, i in ipairs { 4, 8, 12 } do r[i] = r[i] - r[i] % 4 end
  local function carry(from, to, u)
    for i = from, to do
      u = u + h[i]
      h[i] = u % 256
      u = floor(u / 256)
    end
    return u
  end
  for at = 1, #s, 16 do
    local u = 0
    for i = 0, 16 do -- the block, and a bit behind it
      u = u + h[i] + (i < 16 and byte(s, at + i) or 1)
      h[i] = u % 256
      u = floor(u / 256)
    end
    local x = {}
    for i = 0, 16 do
      local sum = 0
      for j = 0, i do sum = sum + h[j] * r[i - j] end
      for j = i + 1, 16 do sum = sum + 320 * h[j] * r[i + 17 - j] end -- 2^136 is 320 modulo 2^130-5
      x[i] = sum
    end
    h = x
    u = carry(0, 15, 0) + h[16]
    h[16] = u % 4
    h[16] = h[16] + carry(0, 15, 5 * floor(u / 4))
  end
  local g, u = {}, 5 -- h - p, where that is not negative
  for i = 0, 16 do
    u = u + h[i]
    g[i] = u % 256
    u = floor(u / 256)
  end
  if g[16] >= 4 then h = g end
  local tag = {}
  u = 0
  for i = 0, 15 do
    u = u + h[i] + byte(key, 17 + i)
    tag[i + 1] = char(u % 256)
    u = floor(u / 256)
  end
  return table.concat(tag)
end

local function words(x, from, to)
  local out = {}
  for i = from, to do out[#out + 1] = le_octets(x[i]) end
  return table.concat(out)
end

local function chachapoly(key, nonce, aad, text, tag)
  local mac = poly1305(words(chacha(key, 0, nonce), 1, 8), padded(aad) .. padded(text) .. le64(#aad) .. le64(#text))
  if mac ~= tag then return nil end
  local out, full = {}, text .. rep("\0", -#text % 64)
  for at = 1, #full, 64 do
    local x = chacha(key, (at - 1) / 64 + 1, nonce)
    for i = 1, 16 do x[i] = bxor(x[i], le32(full, at + 4 * i - 4)) end
    out[#out + 1] = words(x, 1, 16)
  end
  return sub(table.concat(out), 1, #text)
end

-- N-PAMP ------------------------------------------------------------------------

local suites = { [1] = gcm, [2] = chachapoly }

function M.open(suite, key, iv, seq, aad, sealed)
  local f = suites[suite]
  if not f or #sealed < 16 then return nil end
  local nonce = { byte(iv, 1, 12) }
  for i = 1, 8 do nonce[4 + i] = bxor(nonce[4 + i], byte(seq, i)) end
  return f(key, char((table.unpack or unpack)(nonce)), aad, sub(sealed, 1, -17), sub(sealed, -16))
end

return M
