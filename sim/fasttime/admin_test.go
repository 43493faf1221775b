package fasttime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// ask calls the Admin service of one node over the network.
func ask[T any](w *world, n *node, f func(context.Context, quoratev1.AdminClient) (T, error)) (T, error) {
	var none T
	conn, err := grpc.NewClient("passthrough:///"+n.cfg.GRPCAddr, grpc.WithContextDialer(w.grpcDialer(operator)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return none, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return f(ctx, quoratev1.NewAdminClient(conn))
}

// askLeader calls the Admin service of the node that leads.
func askLeader[T any](w *world, f func(context.Context, quoratev1.AdminClient) (T, error)) (resp T) {
	w.t.Helper()
	w.within(30*time.Second, "ask the leader", func() (err error) {
		for _, n := range w.nodes {
			if resp, err = ask(w, n, f); err == nil {
				return nil
			}
		}
		return err
	})
	return resp
}

// apply replaces all rules by one document.
func (w *world) apply(doc string) *quoratev1.ApplyRulesResponse {
	w.t.Helper()
	return askLeader(w, func(ctx context.Context, c quoratev1.AdminClient) (*quoratev1.ApplyRulesResponse, error) {
		return c.ApplyRules(ctx, &quoratev1.ApplyRulesRequest{Sources: []*quoratev1.Source{{Name: "api.yaml", Text: doc}}})
	})
}

// outstanding returns nil when the newest rules are in force everywhere.
func (w *world) outstanding() error {
	resp := askLeader(w, func(ctx context.Context, c quoratev1.AdminClient) (*quoratev1.GetRulesResponse, error) {
		return c.GetRules(ctx, &quoratev1.GetRulesRequest{})
	})
	if o := resp.GetOutstanding(); len(o.GetRegions()) > 0 || o.GetOverdrawnAccounts() > 0 || o.GetInForceWithinUs() != 0 {
		return fmt.Errorf("outstanding: %v", o)
	}
	return nil
}

// serving returns the node that serves agents, nil when none says so.
func (w *world) serving() *node {
	for _, n := range w.nodes {
		s, err := ask(w, n, func(ctx context.Context, c quoratev1.AdminClient) (*quoratev1.NodeStatusResponse, error) {
			return c.NodeStatus(ctx, &quoratev1.NodeStatusRequest{})
		})
		if err == nil && s.Role == "leader" && s.Ready {
			return n
		}
	}
	return nil
}

// leader waits for the node that serves agents.
func (w *world) leader() (found *node) {
	w.t.Helper()
	w.within(30*time.Second, "a leader", func() error {
		if found = w.serving(); found == nil {
			return errors.New("none says that it leads")
		}
		return nil
	})
	return found
}

// held returns what a region holds of the only account, by the ledger.
func (w *world) held(region string) quota.Capacity {
	w.t.Helper()
	resp := askLeader(w, func(ctx context.Context, c quoratev1.AdminClient) (*quoratev1.ListLeasesResponse, error) {
		return c.ListLeases(ctx, &quoratev1.ListLeasesRequest{})
	})
	for _, a := range resp.Accounts {
		for _, h := range a.Holders {
			if h.Region == region && h.HoldsLease {
				c, err := quoratev1.ToCapacity(h.Lease)
				if err != nil {
					w.t.Fatal(err)
				}
				return c
			}
		}
	}
	return quota.Capacity{}
}
