package grpclimit_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/caller"
	"github.com/quorate/quorate/regional/grpclimit"
	"github.com/quorate/quorate/regional/memory"
)

func Example() {
	store, err := memory.WithRules("here", `
domain: api
descriptors:
- key: token
  rate_limit: {unit: hour, requests_per_unit: 2, quota: {standing_share: 1}}
`)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := regional.Open(context.Background(), regional.Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()

	limit, err := grpclimit.New(grpclimit.Config{
		Decide: agent.Decide, Domain: "api", OnFailure: caller.Deny,
		Descriptors: [][]grpclimit.Key{{grpclimit.Bearer("token", caller.Refuse)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	defer server.Stop()

	// What the server does with each call:
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer a-long-random-token"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, discard{})
	for range 3 {
		_, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Cart/Add"}, func(context.Context, any) (any, error) { return nil, nil })
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// discard takes the place of a connection.
type discard struct{}

func (discard) Method() string               { return "/shop.Cart/Add" }
func (discard) SetHeader(metadata.MD) error  { return nil }
func (discard) SendHeader(metadata.MD) error { return nil }
func (discard) SetTrailer(metadata.MD) error { return nil }
