// So that a server outlives the connection that has no descriptor left.
#pragma once

namespace topk {

/// Lets this process have as many descriptors as it may, and sees to it that
/// connections leave some of them to the rest of it: those beyond are closed as
/// soon as they are accepted. Call it before gRPC listens. Returns how many
/// descriptors there may be.
///
/// gRPC 1.51 listens no more, for good, once accept4() has failed for want of a
/// descriptor (CVE-2023-4785). So accept4() itself is ours in programs that
/// call this, and fails for nothing but the want of a connection.
int GuardAccept();

}  // namespace topk
