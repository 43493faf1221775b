package uplink

import (
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/coordinator/quota"
)

// ReadClocks reads the three clocks that a machine has: one that stops in
// suspend, one that does not, and one that people and NTP set.
func ReadClocks() (mono, boot, realtime quota.Micros) {
	return read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_REALTIME)
}

func read(id int32) quota.Micros {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		// The kernel knows all three since 2.6.39; a wrong id is a bug here.
		panic("clock_gettime: " + err.Error())
	}
	return quota.Micros(ts.Nano() / 1000)
}
