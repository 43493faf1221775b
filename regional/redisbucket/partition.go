package redisbucket

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/quorate/quorate/coordinator/quota"
)

// partitions is how many parts a region in a cluster has. It can never change: a
// key would be counted anew in another part. It bounds how many primaries share
// the load, and every renewal of the session costs as many script calls.
const partitions = 64

// clusterSlots of Redis.
const clusterSlots = 16384

// tags are the hash tags of the partitions: tag p is the least number in the p-th
// of as many even ranges of slots, so that primaries with even ranges of slots
// have even numbers of partitions.
var tags = func() (t [partitions]string) {
	for n, left := 0, partitions; left > 0; n++ {
		text := strconv.Itoa(n)
		if p := slotOf(text) / (clusterSlots / partitions); t[p] == "" {
			t[p] = text
			left--
		}
	}
	return t
}()

// partitionOf returns where a key is counted. All limits of one descriptor are in
// one partition, so that a request that counts an hourly and a daily limit is
// still one script call.
func partitionOf(k quota.Key) int {
	identity, _, _ := strings.Cut(string(k), "#")
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity))
	return int(h.Sum32() % partitions)
}

// slotOf returns the slot of a hash tag: CRC16 (XMODEM) modulo the slots.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlots
}
