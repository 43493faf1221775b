package agentbench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on every
// architecture that Go knows.
const tick = 10 * time.Millisecond

// cpuTime returns the CPU time that a process has used, of user and of system.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time, which takes Linux: %w", err)
	}
	// The second field is the program's name in parentheses, which may hold anything.
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read CPU time of %d: unexpected text %q", pid, text)
	}
	var sum time.Duration
	for _, f := range fields[11:13] { // utime and stime, fields 14 and 15
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time of %d: %w", pid, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
