// Package settings fills one struct per binary from, in rising precedence, the
// defaults, a strict YAML file, the environment and the flags that were given.
//
// The struct's values when New is called are the defaults, and its tags are all
// there is to declare:
//
//	type options struct {
//		GRPCAddr string           `key:"grpc_addr" usage:"address to serve gRPC on"`
//		Regions  map[string]int64 `key:"regions" usage:"initial regions with their weights"`
//		Token    string           `key:"token" secret:"true" usage:"operator token"`
//		Redis    string           `key:"redis" secret:"url" usage:"URL of the region's Redis"`
//		Log      logging.Options  // structs are flattened
//	}
//
// A key has exactly one name in each place: key grpc_addr, environment variable
// QUORATE_GRPC_ADDR, flag --grpc-addr. Types are string, bool, int, int64,
// time.Duration, []string and map[string]int64. An environment variable that is
// set but empty counts as not set, since compose files and charts leave such
// behind; a flag that is given always counts.
//
// Variables of another program, for which this one stands in, rank between the
// file and the defaults: see Translate.
//
// A secret is never a flag and never shown. Beside the key itself there is
// key_file, which names a file that holds it. secret:"url" is for URLs that may
// carry a password: they may be flags, and only the password is hidden.
//
// A mistake is never skipped: unknown and repeated keys, wrong types and missing
// values are errors that name file, line and column, and all of them are
// reported at once.
package settings
