// Validators for the values of settings. Some also normalize the value.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace topk {

/// A gRPC listening address: host:port (IPv6 addresses in brackets) or
/// unix:path. Rewrites unix:///path as unix:/path.
CLI::Validator GrpcAddress();

/// host:port or an empty value.
CLI::Validator PlainAddress();

/// An HTTP listening address: host:port over IPv4, or an empty value.
CLI::Validator HttpAddress();

/// The URL of a collector, http://host:port or https://host:port, or an empty
/// value. Adds the default port if there is none.
CLI::Validator Collector();

/// Checks the URL of a collector and adds the default port if there is none.
/// Returns "", or an error message if the URL is invalid.
std::string CheckCollector(std::string& url);

/// File permissions in octal.
CLI::Validator OctalMode();

/// A name prefix of POSIX shared memory objects.
CLI::Validator ObjectPrefix();

/// A duration, in seconds or with a unit. Converts it to seconds.
CLI::Validator Seconds(double least, double most);

/// A number from 0 to 1.
CLI::Validator Fraction();

/// Events or bytes per second; 0 = no limit.
CLI::Validator Rate();

/// A number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB. Rewrites it
/// as a number, rounded up to an integer.
CLI::Validator Bytes(int64_t least, int64_t most);

/// An integer. Rewrites it in canonical form; see CheckWhole().
CLI::Validator Whole(int64_t least, int64_t most);

}  // namespace topk
