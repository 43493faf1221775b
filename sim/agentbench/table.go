package agentbench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quorate/quorate/sim/report"
)

// Report is everything that one run has measured.
type Report struct {
	report.Origin
	Command   string    `json:"command"`
	Rounds    int       `json:"rounds"`
	Results   []Result  `json:"results"`
	InProcess []Process `json:"in_process"`
}

// WriteTable draws the report.
func (r Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "commit %s, %s, %s, %s\nmedians of %d interleaved rounds: %s\n", r.Commit, r.Go, r.CPU, r.Date, r.Rounds, r.Command)
	fmt.Fprint(w, "\nCPU is the CPU time of one decision, of the server and of its Redis; its ratio is to the empty handler.\n")
	what := ""
	for _, x := range r.Results {
		if head := title(x); head != what {
			what = head
			fmt.Fprintf(w, "\n%s\n\tdecisions/s\tper CPU s\tserver us\tredis us\tCPU ratio\tp50 ms\tp99 ms\tcalls\tcommands\tping p99\t\n", head)
		}
		ping := "-"
		if x.RoundTripP99MS > 0 {
			ping = fmt.Sprintf("%.2f", x.RoundTripP99MS)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.3f\t%.2f\t%s\t\n", x.System, x.PerSecond, x.PerCPUSecond(),
			x.ServerUS, x.RedisUS, r.ratio(x), x.P50MS, x.P99MS, x.Calls, x.Commands, ping)
	}
	fmt.Fprint(w, "\nin this process, one caller\n\tns\tallocations\t\n")
	for _, p := range r.InProcess {
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t\n", p.Name, p.NS, p.Allocations)
	}
	return w.Flush()
}

func title(x Result) string {
	if x.HalfLoad {
		return x.Workload + ", at half of the best rate"
	}
	return fmt.Sprintf("%s, %d callers", x.Workload, x.Concurrency)
}

// ratio is the CPU time of a decision to that of the empty handler under the same
// load, 0 without it.
func (r Report) ratio(x Result) float64 {
	for _, e := range r.Results {
		if e.System == Empty && e.Workload == x.Workload && e.Concurrency == x.Concurrency && e.HalfLoad == x.HalfLoad {
			return e.PerCPUSecond() / x.PerCPUSecond()
		}
	}
	return 0
}
