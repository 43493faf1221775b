package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func (t *tool) leasesCommand() *cobra.Command {
	return cli.Group("leases", "List what the regions hold", t.leasesLs())
}

// account is one counted identity in the ledger. The JSON names are an interface.
type account struct {
	Key        string   `json:"key"`
	Domain     string   `json:"domain"`
	Descriptor string   `json:"descriptor"`
	Limit      capacity `json:"limit"`
	Pool       capacity `json:"pool"`
	PoolLevel  tokens   `json:"pool_level_tokens"`
	Holders    []holder `json:"holders"`
}

// holder is what one region has of an account.
type holder struct {
	Region        string    `json:"region"`
	HoldsLease    bool      `json:"holds_lease"`
	Lease         capacity  `json:"lease"`
	StandingShare capacity  `json:"standing_share"`
	Session       uint64    `json:"session"`
	Epoch         uint64    `json:"epoch"`
	InFlight      *inFlight `json:"in_flight"` // null when nothing is on its way
	Lent          bool      `json:"lent"`
	LentTo        string    `json:"lent_to"`
	Borrowed      *capacity `json:"borrowed"` // null when it borrows nothing
}

// inFlight is an assignment that the region has not confirmed yet.
type inFlight struct {
	Epoch   uint64   `json:"epoch"`
	Lease   capacity `json:"lease"`
	Credit  tokens   `json:"credit_tokens"`
	Release bool     `json:"release"`
	Lend    bool     `json:"lend"`
}

func toAccount(a *quoratev1.Account) account {
	out := account{
		Key: a.GetKey(), Domain: a.GetDomain(), Descriptor: a.GetDescriptor_(), Limit: toCapacity(a.GetLimit()),
		Pool: toCapacity(a.GetPool()), PoolLevel: tokens(a.GetPoolLevelMicrotokens()), Holders: []holder{},
	}
	for _, h := range a.GetHolders() {
		to := holder{
			Region: h.GetRegion(), HoldsLease: h.GetHoldsLease(), Lease: toCapacity(h.GetLease()),
			StandingShare: toCapacity(h.GetStandingShare()), Session: h.GetSession(), Epoch: h.GetEpoch(),
			Lent: h.GetLent(), LentTo: h.GetLentTo(),
		}
		if b := h.GetBorrowed(); b != nil {
			borrowed := toCapacity(b)
			to.Borrowed = &borrowed
		}
		if f := h.GetInFlight(); f != nil {
			to.InFlight = &inFlight{f.GetEpoch(), toCapacity(f.GetLease()), tokens(f.GetCreditMicrotokens()), f.GetRelease(), f.GetLendUs() > 0}
		}
		out.Holders = append(out.Holders, to)
	}
	return out
}

// holds returns the lease in words, empty when the region has none.
func (h holder) holds() string {
	if !h.HoldsLease {
		return ""
	}
	return h.Lease.String()
}

// flight returns the assignment on its way in words, empty when there is none.
func (h holder) flight() string {
	switch f := h.InFlight; {
	case f == nil:
		return ""
	case f.Lend:
		return "lend"
	case f.Release:
		return "release"
	case f.Credit == 0:
		return f.Lease.String()
	default:
		return f.Lease.String() + " with " + f.Credit.String()
	}
}

// loan returns in words what the region lends and borrows of standing shares.
func (h holder) loan() string {
	var parts []string
	switch {
	case h.Lent && h.LentTo != "":
		parts = append(parts, "lends "+h.StandingShare.String()+" to "+h.LentTo)
	case h.Lent:
		parts = append(parts, "lends "+h.StandingShare.String())
	}
	if h.Borrowed != nil {
		parts = append(parts, "borrows "+h.Borrowed.String())
	}
	return strings.Join(parts, ", ")
}

func (t *tool) leasesLs() *cobra.Command {
	q := &quoratev1.ListLeasesRequest{}
	c := &cobra.Command{
		Use: "ls", Short: "List the accounts and who holds what of them", Args: cobra.NoArgs,
		Long: "Lists the accounts: the keys that outgrew the standing shares. All others are served\nwithout the coordinator and are not listed.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			a, err := ask(c.Context(), t, reads, quoratev1.AdminClient.ListLeases, q)
			if err != nil {
				return err
			}
			result := struct {
				TotalAccounts int64     `json:"total_accounts"`
				Accounts      []account `json:"accounts"`
			}{a.GetTotalAccounts(), []account{}}
			for _, one := range a.GetAccounts() {
				result.Accounts = append(result.Accounts, toAccount(one))
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d of %s\n", len(result.Accounts), plural(int(result.TotalAccounts), "account"))
			return t.print(c, result, func(w io.Writer) error {
				var rows [][]string
				for _, one := range result.Accounts {
					head := []string{one.Key, one.Limit.String(), one.Pool.String(), one.PoolLevel.String()}
					if len(one.Holders) == 0 {
						rows = append(rows, append(head, "", "", "", "", ""))
					}
					for _, h := range one.Holders {
						rows = append(rows, append(head[:4:4], h.Region, h.holds(), h.loan(), strconv.FormatUint(h.Epoch, 10), h.flight()))
					}
				}
				return output.Columns(w, []string{"KEY", "LIMIT", "POOL", "LEVEL", "REGION", "LEASE", "LOAN", "EPOCH", "IN FLIGHT"}, rows)
			})
		},
	}
	c.Flags().StringVar(&q.Domain, "domain", "", "only accounts of this domain")
	c.Flags().StringVar(&q.Region, "region", "", "only accounts of which this region holds a lease")
	c.Flags().Int32Var(&q.Limit, "limit", 1000, "at most so many accounts")
	// The error would mean that there is no such flag.
	_ = c.RegisterFlagCompletionFunc("region", t.completeRegions)
	return c
}
