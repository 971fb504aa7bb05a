#include "server/grpc_workarounds/certificate_updates.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/base/text.h"

namespace topk {

#if TOPK_GRPC_AT_LEAST(83)

CertificateUpdates::CertificateUpdates()
    : provider_(
          std::make_shared<grpc::experimental::InMemoryCertificateProvider>()) {
}

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

class CertificateUpdates::MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // A reader has the old content or the new one, never a part of each. It
  // compares the modification times before and after it reads the file twice,
  // for the key and for the certificate, so each content has its own second.
  bool Replace(std::string_view content) {
    const int fd = memfd_create("topkd-certificate", MFD_CLOEXEC);
    if (fd < 0) return false;
    const timespec now = {++version_, 0};
    const timespec times[] = {now, now};
    const bool written = write(fd, content.data(), content.size()) ==
                             static_cast<ssize_t>(content.size()) &&
                         futimens(fd, times) == 0;
    if (written && fd_ < 0) {
      fd_ = fd;
      return true;
    }
    const bool replaced = written && dup3(fd, fd_, O_CLOEXEC) == fd_;
    close(fd);
    return replaced;
  }

  std::string path() const { return StrCat("/proc/self/fd/", fd_); }

 private:
  int fd_ = -1;
  time_t version_ = 0;
};

CertificateUpdates::CertificateUpdates()
    : identity_(std::make_unique<MemoryFile>()),
      client_ca_(std::make_unique<MemoryFile>()) {}

CertificateUpdates::~CertificateUpdates() = default;

Status CertificateUpdates::Update(const std::string& certificate,
                                  const std::string& key,
                                  const std::string& client_ca) {
  const bool verifies = !client_ca.empty();
  if (!identity_->Replace(StrCat(certificate, "\n", key)) ||
      (verifies && !client_ca_->Replace(client_ca)) ||
      access(identity_->path().c_str(), R_OK) != 0) {
    return {
        Code::kInternal, "TLS_FILE", "",
        StrCat("cannot keep the certificate in memory below /proc/self/fd: ",
               std::strerror(errno))};
  }
  if (provider_ == nullptr) {
    const std::string path = identity_->path();
    provider_ =
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            path, path, verifies ? client_ca_->path() : "",
            /*refresh_interval_sec=*/1);
  }
  return {};
}

#endif

std::shared_ptr<grpc::experimental::CertificateProviderInterface>
CertificateUpdates::provider() const {
  return provider_;
}

}  // namespace topk
