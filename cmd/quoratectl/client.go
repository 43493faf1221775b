package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cmd/internal/cli"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

var (
	errNoEndpoints = errors.New("no endpoint to ask")
	errNoLeader    = errors.New("the cluster has no leader at the moment")
)

// maxMessage is what one answer may weigh: a list of leases of many accounts.
const maxMessage = 64 << 20

// effect says what may be done when the outcome of a call is not known.
type effect bool

const (
	reads   effect = false // asking the next endpoint is harmless
	changes effect = true  // it may have happened: never ask again
)

// adminCall is a method of the Admin service.
type adminCall[Q, A any] = func(quoratev1.AdminClient, context.Context, Q, ...grpc.CallOption) (A, error)

// ask calls the leader. It tries the endpoints in turn, follows the hint of a
// follower, and starts over while there is no leader, until the time is up.
func ask[Q, A any](ctx context.Context, t *tool, e effect, call adminCall[Q, A], q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	var none A
	var failures []string
	targets, tried := t.Endpoints, map[string]bool{}
	for pause := 50 * time.Millisecond; ; {
		if len(targets) == 0 {
			// All were asked. Only an election is worth waiting for.
			if !electing(failures) || !wait(ctx, pause) {
				return none, unreachable(failures)
			}
			pause = min(2*pause, time.Second)
			targets, tried, failures = t.Endpoints, map[string]bool{}, nil
		}
		target := targets[0]
		targets = targets[1:]
		if tried[target] {
			continue
		}
		tried[target] = true
		// An endpoint that hangs must leave time for the others.
		share := t.Timeout / time.Duration(len(t.Endpoints)+1)
		conn, err := connect(ctx, target, t.creds, share)
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %v", target, err))
			continue
		}
		attempt, done := ctx, context.CancelFunc(func() {})
		if e == reads && len(t.Endpoints) > 1 {
			attempt, done = context.WithTimeout(ctx, max(share, t.Timeout/2))
		}
		answer, err := call(quoratev1.NewAdminClient(conn), attempt, q)
		done()
		_ = conn.Close() // nothing of an answered call depends on it
		if err == nil {
			return answer, nil
		}
		leader, follower := hint(err)
		switch {
		case follower:
			failures = append(failures, fmt.Sprintf("%s: %v", target, errNoLeader))
			if leader != "" && !tried[leader] {
				targets = append([]string{leader}, targets...)
			}
		case !transient(err):
			return none, answered(err)
		case e == changes:
			return none, cli.Fail(cli.Unavailable, fmt.Errorf("%s: %s", target, status.Convert(err).Message()),
				"It is not known whether the change was made: look before you try again.")
		default:
			failures = append(failures, fmt.Sprintf("%s: %s", target, status.Convert(err).Message()))
		}
	}
}

// connect returns a connection that has been established, so that what fails
// later may have reached the server, and what fails here has not.
func connect(ctx context.Context, target string, creds credentials.TransportCredentials, patience time.Duration) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(creds),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithUserAgent("quoratectl"))
	if err != nil {
		return nil, fmt.Errorf("not an address: %w", err)
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			// Only a call is told why. Should it get through after all, it is
			// one that changes nothing.
			_, err := quoratev1.NewAdminClient(conn).NodeStatus(ctx, &quoratev1.NodeStatusRequest{})
			if err == nil {
				return conn, nil
			}
			_ = conn.Close()
			return nil, errors.New(reason(err))
		}
		if !conn.WaitForStateChange(ctx, state) {
			_ = conn.Close()
			return nil, fmt.Errorf("no connection within %s", patience.Round(time.Millisecond))
		}
	}
	return conn, nil
}

// reason strips what gRPC wraps around the error of a connection.
func reason(err error) string {
	text := status.Convert(err).Message()
	if _, after, ok := strings.Cut(text, `desc = "transport: `); ok {
		text = strings.TrimPrefix(strings.TrimSuffix(after, `"`), "Error while dialing: ")
	}
	return text
}

// hint returns where the leader is when a follower says so, empty when it does
// not know.
func hint(err error) (address string, follower bool) {
	for _, d := range status.Convert(err).Details() {
		if h, ok := d.(*quoratev1.LeaderHint); ok {
			return h.GetAddress(), true
		}
	}
	return "", false
}

// transient reports whether an error says nothing about the request itself.
func transient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return true
	}
	return false
}

func electing(failures []string) bool {
	for _, f := range failures {
		if strings.HasSuffix(f, errNoLeader.Error()) {
			return true
		}
	}
	return false
}

// wait returns false when the time is up before the pause is over.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func unreachable(failures []string) error {
	what := errors.New("no coordinator answered: " + strings.Join(failures, "; "))
	if electing(failures) {
		return cli.Fail(cli.Unavailable, errNoLeader, "A majority of the coordinators must run. See quoratectl cluster status.")
	}
	return cli.Fail(cli.Unavailable, what, "Give the addresses with --endpoints or QUORATE_ENDPOINTS.")
}

// answered gives the server's refusal the exit code that it means.
func answered(err error) error {
	s := status.Convert(err)
	text := errors.New(s.Message())
	switch s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange:
		return cli.Fail(cli.Usage, text, "")
	case codes.FailedPrecondition:
		return cli.Fail(cli.No, text, "")
	case codes.Aborted:
		return cli.Fail(cli.Conflict, text, "Somebody else changed it: get it again, merge and retry.")
	case codes.PermissionDenied, codes.Unauthenticated:
		return cli.Fail(cli.NotPermitted, text, "")
	case codes.Unimplemented:
		return cli.Fail(cli.Unavailable, errors.New("the server does not know this request"), "Is it a coordinator, and of this version?")
	}
	return cli.Fail(cli.Unavailable, fmt.Errorf("server error (%s): %w", s.Code(), text), "")
}
