//go:build !linux

package uplink

import (
	"time"

	"github.com/quorate/quorate/coordinator/quota"
)

var start = time.Now()

// ReadClocks reads the clocks that the Go runtime offers: elsewhere than on
// Linux a suspended machine is noticed by the wall clock only.
func ReadClocks() (mono, boot, realtime quota.Micros) {
	now := time.Now()
	mono = quota.MicrosOf(now.Sub(start))
	return mono, mono, quota.Micros(now.UnixMicro())
}
