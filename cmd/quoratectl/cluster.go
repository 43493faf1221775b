package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/internal/output"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func (t *tool) clusterCommand() *cobra.Command {
	return cli.Group("cluster", "Look at the coordinators", t.clusterStatus())
}

// node is what one endpoint says about itself. The JSON names are an interface.
type node struct {
	Endpoint      string   `json:"endpoint"`
	Reachable     bool     `json:"reachable"`
	Error         string   `json:"error"`
	Node          string   `json:"node"`
	Cluster       string   `json:"cluster"`
	Role          string   `json:"role"`
	Leader        string   `json:"leader"`
	LeaderAddress string   `json:"leader_address"`
	Ready         bool     `json:"ready"`
	Term          uint64   `json:"term"`
	AppliedIndex  uint64   `json:"applied_index"`
	CommitIndex   uint64   `json:"commit_index"`
	StateHash     string   `json:"state_hash"`
	Accounts      int64    `json:"accounts"`
	Version       string   `json:"version"`
	Servers       []server `json:"servers"`
	// WorstHeadroom is the smallest distance to the Bound seen in usage
	// reports; null before the first. Below zero the bound was broken.
	WorstHeadroom *tokens `json:"worst_headroom_tokens"`
}

type server struct {
	ID          string `json:"id"`
	RaftAddress string `json:"raft_address"`
	Voter       bool   `json:"voter"`
}

// clusterStatus is what `cluster status` prints.
type clusterStatus struct {
	Healthy  bool     `json:"healthy"`
	Problems []string `json:"problems"`
	Leader   string   `json:"leader"`
	Voters   int      `json:"voters"`
	// FailureTolerance is how many more voters may fail, counting only those
	// that answered as alive; negative without a majority.
	FailureTolerance int    `json:"failure_tolerance"`
	Nodes            []node `json:"nodes"`
}

func (t *tool) clusterStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Ask every coordinator how it is", Args: cobra.NoArgs,
		Long: "Asks all --endpoints at once, each for --timeout at most, and judges the whole.\n" +
			"Exit code 1 says that something is wrong, 3 that nobody answered.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.load(); err != nil {
				return err
			}
			nodes := make([]node, len(t.Endpoints))
			var asked sync.WaitGroup
			for i, e := range t.Endpoints {
				asked.Go(func() { nodes[i] = askNode(c.Context(), t, e) })
			}
			asked.Wait()
			s := judge(nodes)
			err := t.print(c, s, func(w io.Writer) error { return s.draw(w) })
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(nodes, func(n node) bool { return n.Reachable }) {
				return cli.Fail(cli.Unavailable, fmt.Errorf("no coordinator answered"),
					"Give the addresses with --endpoints or QUORATE_ENDPOINTS.")
			}
			if !s.Healthy {
				return cli.Answer(cli.No)
			}
			return nil
		},
	}
}

// askNode never takes longer than the timeout.
func askNode(ctx context.Context, t *tool, endpoint string) node {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	n := node{Endpoint: endpoint, Servers: []server{}}
	conn, err := connect(ctx, endpoint, t.creds, t.Timeout)
	if err != nil {
		n.Error = err.Error()
		return n
	}
	defer conn.Close() // nothing of an answered call depends on it
	a, err := quoratev1.NewAdminClient(conn).NodeStatus(ctx, &quoratev1.NodeStatusRequest{})
	if err != nil {
		n.Error = status.Convert(err).Message()
		return n
	}
	n.Reachable, n.Ready = true, a.GetReady()
	n.Node, n.Cluster, n.Role, n.Leader, n.LeaderAddress = a.GetNode(), a.GetCluster(), a.GetRole(), a.GetLeader(), a.GetLeaderAddress()
	n.Term, n.AppliedIndex, n.CommitIndex = a.GetTerm(), a.GetAppliedIndex(), a.GetCommitIndex()
	n.StateHash, n.Accounts, n.Version = a.GetStateHash(), a.GetAccounts(), a.GetVersion()
	if a.WorstHeadroomMicrotokens != nil {
		h := tokens(a.GetWorstHeadroomMicrotokens())
		n.WorstHeadroom = &h
	}
	for _, s := range a.GetServers() {
		n.Servers = append(n.Servers, server{s.GetId(), s.GetRaftAddress(), s.GetVoter()})
	}
	return n
}

// judge puts what the nodes say side by side.
func judge(nodes []node) clusterStatus {
	s := clusterStatus{Problems: []string{}, Nodes: nodes}
	bad := func(format string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(format, args...)) }
	var newest *node // the reachable node in the highest term
	alive, clusters, hashes := map[string]bool{}, map[string]bool{}, map[uint64]map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		if !n.Reachable {
			bad("%s does not answer: %s", n.Endpoint, n.Error)
			continue
		}
		alive[n.Node] = true
		if n.Cluster != "" {
			clusters[n.Cluster] = true
		}
		if hashes[n.AppliedIndex] == nil {
			hashes[n.AppliedIndex] = map[string]bool{}
		}
		hashes[n.AppliedIndex][n.StateHash] = true
		if !n.Ready {
			bad("%s is not ready", n.Node)
		}
		if n.WorstHeadroom != nil && *n.WorstHeadroom < 0 {
			bad("%s has seen the bound broken by %s tokens", n.Node, -*n.WorstHeadroom)
		}
		if newest == nil || n.Term > newest.Term || n.Term == newest.Term && n.Role == "leader" {
			newest = n
		}
	}
	if newest != nil {
		s.Leader = newest.Leader
		voters := 0
		for _, v := range newest.Servers {
			if v.Voter {
				s.Voters++
				if alive[v.ID] {
					voters++
				}
			}
		}
		if s.Leader == "" {
			bad("there is no leader in term %d", newest.Term)
		}
		s.FailureTolerance = voters - (s.Voters/2 + 1)
		if unseen := s.Voters - voters; unseen > 0 {
			bad("%s of %d not seen among the endpoints", plural(unseen, "voter"), s.Voters)
		}
	}
	if len(clusters) > 1 {
		bad("the endpoints belong to %d clusters", len(clusters))
	}
	for _, index := range slices.Sorted(maps.Keys(hashes)) {
		if len(hashes[index]) > 1 && len(clusters) <= 1 {
			bad("the nodes disagree on the state at index %d", index)
		}
	}
	s.Healthy = len(s.Problems) == 0
	return s
}

func (s clusterStatus) draw(w io.Writer) error {
	var rows [][]string
	for _, n := range s.Nodes {
		if !n.Reachable {
			rows = append(rows, []string{n.Endpoint, "", "unreachable", "", "", "", "", "", "", ""})
			continue
		}
		ready, headroom := "no", ""
		if n.Ready {
			ready = "yes"
		}
		if n.WorstHeadroom != nil {
			headroom = n.WorstHeadroom.String()
		}
		hash := n.StateHash
		if len(hash) > 12 { // enough to compare by eye; JSON has it whole
			hash = hash[:12]
		}
		rows = append(rows, []string{
			n.Endpoint, n.Node, n.Role, ready, strconv.FormatUint(n.Term, 10), strconv.FormatUint(n.AppliedIndex, 10), hash,
			strconv.FormatInt(n.Accounts, 10), headroom, n.Version,
		})
	}
	header := []string{"ENDPOINT", "NODE", "ROLE", "READY", "TERM", "APPLIED", "STATE", "ACCOUNTS", "HEADROOM", "VERSION"}
	if err := output.Columns(w, header, rows); err != nil {
		return err
	}
	if s.Healthy {
		_, err := fmt.Fprintf(w, "\nhealthy: leader %s, %s, %s more may fail\n", s.Leader, plural(s.Voters, "voter"), strconv.Itoa(s.FailureTolerance))
		return err
	}
	_, err := fmt.Fprintf(w, "\nnot healthy:\n  %s\n", strings.Join(s.Problems, "\n  "))
	return err
}
