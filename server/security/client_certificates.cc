#include "server/security/client_certificates.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/common/certificates.h"

namespace topk {
namespace {

// When the cache is full, all verdicts are dropped at once. Thousands of
// certificates of trusted authorities fit.
constexpr size_t kMaxBytes = size_t{8} << 20;
// How long a rejection is cached. Other verdicts are cached at least this long.
constexpr std::time_t kMinVerdictSeconds = 1;
constexpr unsigned long kCrlFlags =  // NOLINT: OpenSSL's type
    X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
constexpr std::time_t kNever = std::numeric_limits<std::time_t>::max();

using StoreContext =
    std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

Status NotValid(const std::string& why) {
  return {Code::kUnauthenticated, "CERTIFICATE_NOT_VALID", "",
          StrCat("the client's certificate is not valid: ", why)};
}

// Accepts a trust anchor even if no valid revocation list covers it. To revoke
// a trust anchor, remove it from the file of --tls-client-ca.
int IgnoreAnchorRevocationErrors(int ok, X509_STORE_CTX* context) {
  if (ok == 1) return 1;
  const int anchor = sk_X509_num(X509_STORE_CTX_get0_chain(context)) - 1;
  if (X509_STORE_CTX_get_error_depth(context) != anchor) return 0;
  switch (X509_STORE_CTX_get_error(context)) {
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
      X509_STORE_CTX_set_error(context, X509_V_OK);
      return 1;
    default:
      return 0;
  }
}

}  // namespace

Status ClientCertificates::Load(const std::string& authorities,
                                const std::string& revoked) {
  const auto trusted =
      ReadCertificates({{"--tls-client-ca", files_.authorities}, authorities});
  if (!trusted.ok()) return trusted.status();
  auto trust = std::make_shared<Trust>();
  trust->store.reset(X509_STORE_new());
  X509_STORE* const store = trust->store.get();
  // Accept intermediate authorities as trust anchors, as TLS handshakes do.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  for (const Certificate& authority : *trusted) {
    X509_STORE_add_cert(store, authority.get());
  }
  std::time_t until = kNever;
  if (!files_.revoked.empty()) {
    const auto lists =
        ReadRevocationLists({{"--tls-client-crl", files_.revoked}, revoked});
    if (!lists.ok()) return lists.status();
    for (const RevocationList& list : *lists) {
      X509_STORE_add_crl(store, list.get());
      const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
      if (next != nullptr) until = std::min(until, ToTime(next));
    }
    log_.info("{} revocation lists of {} are in use{}", lists->size(),
              files_.revoked,
              until == kNever ? "" : StrCat(", until ", UtcText(until)));
    if (until <= std::time(nullptr)) {
      log_.warn(
          "a revocation list in {} is out of date: until the file is updated, "
          "all client certificates of the list's issuer are rejected",
          files_.revoked);
    }
  }
  trust->lists_until = until;
  const MutexLock lock(mutex_);
  trust_ = std::move(trust);
  for (auto& [certificate, verdict] : verdicts_) verdict.until = 0;
  return {};
}

Status ClientCertificates::Check(std::string_view certificate,
                                 std::string_view chain) const {
  std::shared_ptr<const Trust> trust;
  std::string sent(chain);
  {
    const MutexLock lock(mutex_);
    if (const auto found = verdicts_.find(certificate);
        found != verdicts_.end()) {
      const Verdict& known = found->second;
      if (sent.empty()) sent = known.chain;
      // A certificate that is valid with one chain needs no other chain.
      const bool applies = known.status.ok() || sent == known.chain;
      if (applies && std::time(nullptr) < known.until) return known.status;
    }
    trust = trust_;
  }
  Verdict verdict = Verify(*trust, certificate, sent);
  Status status = verdict.status;
  const MutexLock lock(mutex_);
  if (trust != trust_) return status;  // a file has changed
  if (bytes_ > kMaxBytes) {
    verdicts_.clear();
    bytes_ = 0;
  }
  const auto [entry, is_new] = verdicts_.try_emplace(std::string(certificate));
  if (is_new) bytes_ += certificate.size();
  bytes_ -= entry->second.chain.size();
  bytes_ += sent.size();
  verdict.chain = std::move(sent);
  entry->second = std::move(verdict);
  return status;
}

ClientCertificates::Verdict ClientCertificates::Verify(
    const Trust& trust, std::string_view certificate,
    std::string_view chain) const {
  Verdict verdict;
  const auto reject = [&verdict](const std::string& why) {
    verdict.status = NotValid(why);
    verdict.until = std::time(nullptr) + kMinVerdictSeconds;
    return std::move(verdict);
  };
  const auto own = ReadCertificates({{"", ""}, std::string(certificate)});
  Result<std::vector<Certificate>> others = std::vector<Certificate>();
  if (!chain.empty()) others = ReadCertificates({{"", ""}, std::string(chain)});
  if (!own.ok() || !others.ok()) return reject("its PEM cannot be parsed");
  const std::unique_ptr<STACK_OF(X509), FreeStack> untrusted(
      sk_X509_new_null());
  for (const Certificate& other : *others) {
    sk_X509_push(untrusted.get(), other.get());
  }
  const StoreContext context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), trust.store.get(), own->front().get(),
                          untrusted.get()) != 1 ||
      X509_STORE_CTX_set_default(context.get(), "ssl_client") != 1) {
    return reject(LastOpenSslError());
  }
  if (!files_.revoked.empty()) {
    X509_STORE_CTX_set_flags(context.get(), kCrlFlags);
    X509_STORE_CTX_set_verify_cb(context.get(), IgnoreAnchorRevocationErrors);
  }
  if (X509_verify_cert(context.get()) != 1) {
    return reject(
        X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
  }
  verdict.until = trust.lists_until;
  STACK_OF(X509)* verified = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; i < sk_X509_num(verified); ++i) {
    // notAfter is inclusive: a certificate expires one second later.
    const X509* link = sk_X509_value(verified, i);
    verdict.until =
        std::min(verdict.until, ToTime(X509_get0_notAfter(link)) + 1);
  }
  // If an unrelated revocation list has expired, `until` is in the past. Cache
  // the verdict for kMinVerdictSeconds nevertheless.
  verdict.until =
      std::max(verdict.until, std::time(nullptr) + kMinVerdictSeconds);
  return verdict;
}

}  // namespace topk
