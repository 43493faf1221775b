// Package fairshare divides an integer capacity between claimants: weighted
// max-min fair division, also called water-filling.
//
// Water is poured into vessels whose width is the claimant's weight: a vessel
// already holds its floor, and takes no more than what is wanted. So whoever
// wants little gets all of it, and what is left is level between those who want
// more, in proportion to their weights.
//
// The result is whole and exact: it is what one gets by handing out one unit at
// a time, always to the claimant that has least for its weight, and the tests
// compare it with just that.
package fairshare
