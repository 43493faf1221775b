package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// explained is the answer for one limit. The JSON names are an interface.
type explained struct {
	Rule      string `json:"rule"`
	LimitName string `json:"limit_name"`
	Unlimited bool   `json:"unlimited"`
	// Algorithm is empty when unlimited, and from a server that does not know it.
	Algorithm string `json:"algorithm"`
	Shape     bool   `json:"shape"`
	// AccountOpen says that the key outgrew the standing shares.
	AccountOpen bool     `json:"account_open"`
	Account     *account `json:"account"` // null when unlimited
	Demand      []demand `json:"demand"`
}

// demand is what one region last reported.
type demand struct {
	Region     string  `json:"region"`
	Arrivals   float64 `json:"arrivals_per_s"`
	Admitted   float64 `json:"admitted_per_s"`
	Denied     float64 `json:"denied_per_s"`
	Level      tokens  `json:"level_tokens"`
	ReportedMS *int64  `json:"reported_ms"` // age; null when there is no report
	// Reason says why the region denies now, empty when it does not.
	Reason string `json:"reason"`
}

func toExplained(l *quoratev1.ExplainedLimit) explained {
	e := explained{
		Rule: l.GetRule(), LimitName: l.GetLimitName(), Unlimited: l.GetUnlimited(), AccountOpen: l.GetAccountOpen(), Demand: []demand{},
		Algorithm: l.GetAlgorithm(), Shape: l.GetShape(),
	}
	if a := l.GetAccount(); a != nil {
		to := toAccount(a)
		e.Account = &to
	}
	for _, d := range l.GetDemand() {
		e.Demand = append(e.Demand, demand{
			d.GetRegion(), d.GetArrivalsPerS(), d.GetAdmittedPerS(), d.GetDeniedPerS(),
			tokens(d.GetLevelMicrotokens()), milliseconds(d.GetReportedUs()), d.GetReason(),
		})
	}
	return e
}

func (t *tool) explainCommand() *cobra.Command {
	var domain, override string
	var trace bool
	c := &cobra.Command{
		Use: "explain --domain DOMAIN key=value...", Short: "Explain what limits a request, and who holds what of the limit",
		Long: "Explains one descriptor: which rule matches it and what else was considered, the limit, the standing\n" +
			"shares, who holds what, what is left in the pool, what each region last reported and why it denies now.\n" +
			"Exit code 1 says that no rule matches.",
		Example: "  quoratectl explain --domain api user=alice path=/login",
		RunE: func(c *cobra.Command, args []string) error {
			if err := t.load(); err != nil {
				return err
			}
			if domain == "" || len(args) == 0 {
				return cli.Fail(cli.Usage, fmt.Errorf("explain needs a domain and at least one key=value"),
					"For example: quoratectl explain --domain api user=alice")
			}
			if override != "" {
				if _, err := rules.ParseOverride(override); err != nil {
					return cli.Usagef("--override: %v", err)
				}
			}
			q := &quoratev1.ExplainRequest{Domain: domain, Override: override}
			for _, a := range args {
				key, value, _ := strings.Cut(a, "=")
				if key == "" {
					return cli.Usagef("%q is not key=value", a)
				}
				q.Entries = append(q.Entries, &quoratev1.Entry{Key: key, Value: value})
			}
			a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.Explain, q)
			if err != nil {
				return err
			}
			return t.printExplanation(c, a, trace)
		},
	}
	c.Flags().StringVar(&domain, "domain", "", "domain of the request")
	c.Flags().StringVar(&override, "override", "", "limit that the request brings, like 10/minute")
	c.Flags().BoolVar(&trace, "trace", false, "also print what was considered when a rule was found")
	return c
}

func (t *tool) printExplanation(c *cobra.Command, a *quoratev1.ExplainResponse, trace bool) error {
	result := struct {
		Matched      bool        `json:"matched"`
		RulesVersion uint64      `json:"rules_version"`
		Limits       []explained `json:"limits"`
		Considered   []string    `json:"considered"`
	}{len(a.GetLimits()) > 0, a.GetRulesVersion(), []explained{}, append([]string{}, a.GetConsidered()...)}
	for _, l := range a.GetLimits() {
		result.Limits = append(result.Limits, toExplained(l))
	}
	err := t.print(c, result, func(w io.Writer) error {
		if !result.Matched {
			fmt.Fprintf(w, "no rule matches (rules version %d)\n", result.RulesVersion)
		}
		if trace || !result.Matched {
			for _, line := range result.Considered {
				fmt.Fprintln(w, "  "+line)
			}
		}
		for i, e := range result.Limits {
			if i > 0 || trace {
				fmt.Fprintln(w)
			}
			if err := e.draw(w, result.RulesVersion); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !result.Matched {
		return cli.Answer(cli.No)
	}
	return err
}

// means says how the limit is applied where that is not what everybody expects.
func (e explained) means() string {
	text := ""
	if e.Algorithm != "" && e.Algorithm != rules.TokenBucket.String() {
		text = ", " + e.Algorithm
	}
	if e.Shape {
		text += ", shaped"
	}
	return text
}

// draw prints one limit: what it is, then a line per region.
func (e explained) draw(w io.Writer, version uint64) error {
	name := e.Rule
	if e.LimitName != "" {
		name += ", limit " + e.LimitName
	}
	head := [][]string{{"rule", fmt.Sprintf("%s (rules version %d)", name, version)}}
	if e.Unlimited || e.Account == nil {
		head = append(head, []string{"limit", "unlimited"})
		return output.Columns(w, nil, head)
	}
	a := e.Account
	pool := a.Pool.String() + ", level " + a.PoolLevel.String()
	if !e.AccountOpen {
		pool += " (no account: every region serves its standing share)"
	}
	head = append(head, []string{"key", a.Key}, []string{"limit", a.Limit.String() + e.means()}, []string{"pool", pool})
	if err := output.Columns(w, nil, head); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var rows [][]string
	for _, h := range a.Holders {
		share := h.StandingShare.String()
		if share == "none" {
			share = ""
		}
		row := []string{h.Region, h.holds(), share, h.flight()}
		i := slices.IndexFunc(e.Demand, func(d demand) bool { return d.Region == h.Region })
		if i < 0 || e.Demand[i].ReportedMS == nil {
			reason := ""
			if i >= 0 {
				reason = e.Demand[i].Reason
			}
			rows = append(rows, append(row, "", "", "", "", "never", reason))
			continue
		}
		d := e.Demand[i]
		rows = append(rows, append(row, strconv.FormatInt(int64(d.Level)/1e6, 10), perSecond(d.Arrivals), perSecond(d.Admitted),
			perSecond(d.Denied), ago(d.ReportedMS), d.Reason))
	}
	return output.Columns(w, []string{
		"REGION", "LEASE", "STANDING SHARE", "IN FLIGHT", "LEVEL", "WANTS/S", "ADMITS/S", "DENIES/S", "REPORTED", "DENIES BECAUSE",
	}, rows)
}
