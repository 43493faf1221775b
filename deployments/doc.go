// Package deployments tests what this folder ships: every file in it is loaded
// or run by a test, so that what the README shows works.
package deployments
