#include "server/grpc_workarounds/certificate_updates.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "core/base/text.h"

namespace topk {

#if TOPK_GRPC_AT_LEAST(83)

CertificateUpdates::~CertificateUpdates() = default;

Status CertificateUpdates::Update(const std::string& certificate,
                                  const std::string& key,
                                  const std::string& client_ca) {
  if (!client_ca.empty()) {
    if (const auto status = provider_->UpdateRoot(client_ca); !status.ok()) {
      return {Code::kInternal, "TLS_FILE", "", std::string(status.message())};
    }
  }
  const auto status = provider_->UpdateIdentityKeyCertPair(
      std::vector<grpc::experimental::IdentityKeyOrSignerCertPair>{
          {key, certificate}});
  if (!status.ok()) {
    return {Code::kInternal, "TLS_FILE", "", std::string(status.message())};
  }
  return {};
}

#else

namespace {

std::string PathOf(int fd) { return StrCat("/proc/self/fd/", fd); }

// Replaces the file behind `fd`, or opens a new file if `fd` is negative.
// Readers see either the old or the new content, never a mix. Sets the
// modification time to `version`. gRPC reads the file twice, for the key and
// for the certificate, and notices a change in between by the modification
// time.
bool Replace(int& fd, std::string_view content, time_t version) {
  const int file = memfd_create("topkd-certificate", MFD_CLOEXEC);
  if (file < 0) return false;
  const timespec times[] = {{version, 0}, {version, 0}};
  const bool written = write(file, content.data(), content.size()) ==
                           static_cast<ssize_t>(content.size()) &&
                       futimens(file, times) == 0;
  if (written && fd < 0) {
    fd = file;
    return true;
  }
  const bool replaced = written && dup3(file, fd, O_CLOEXEC) == fd;
  close(file);
  return replaced;
}

}  // namespace

CertificateUpdates::~CertificateUpdates() {
  close(identity_);
  close(client_ca_);
}

Status CertificateUpdates::Update(const std::string& certificate,
                                  const std::string& key,
                                  const std::string& client_ca) {
  const bool verifies = !client_ca.empty();
  ++version_;
  if (!Replace(identity_, StrCat(certificate, "\n", key), version_) ||
      (verifies && !Replace(client_ca_, client_ca, version_)) ||
      access(PathOf(identity_).c_str(), R_OK) != 0) {
    return {Code::kInternal, "TLS_FILE", "",
            StrCat("cannot keep the TLS files in memory: ", ErrnoText(errno))};
  }
  if (provider_ == nullptr) {
    const std::string path = PathOf(identity_);
    provider_ =
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            path, path, verifies ? PathOf(client_ca_) : "",
            /*refresh_interval_sec=*/1);
  }
  return {};
}

#endif

}  // namespace topk
