package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// lines writes a line a second and one per event, until ctx ends.
func lines(ctx context.Context, out io.Writer, c *camera) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	told := 0
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		f := c.take()
		for ; told < len(f.events); told++ {
			fmt.Fprintf(out, "%s  * %s\n", clock(f.events[told].At), f.events[told].Text)
		}
		fmt.Fprintln(out, f.line())
	}
}

func (f frame) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  all %.0f of %.0f/s admitted, limit %.0f/s, headroom %d", clock(f.elapsed),
		f.total.admitted, f.total.demand, f.limit.Rate.PerSecond(), f.headroom().Floor())
	for _, r := range f.rows {
		fmt.Fprintf(&b, "  | %s %.0f of %.0f, %s", r.name, r.admitted, r.demand, r.holds())
	}
	fmt.Fprintf(&b, "  | %s", f.leader())
	return b.String()
}

// holds says what the coordinator counts a region with.
func (r row) holds() string {
	what := "lease"
	if r.standing {
		what = "standing"
	}
	text := fmt.Sprintf("%s %.0f", what, r.lease)
	if r.cut {
		text += ", cut off"
	}
	return text
}

func (f frame) leader() string {
	if !f.sight.Leading {
		return "no leader"
	}
	return "leader " + f.sight.Leader
}

// clock prints a time of the demo as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
