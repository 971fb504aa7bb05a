#include "server/security/client_certificates.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/text.h"
#include "core/security/certificates.h"

namespace topk {
namespace {

// When the cache is full, all verdicts are dropped at once.
constexpr size_t kMaxVerdicts = 4096;
constexpr size_t kMaxIntermediates = 64;
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
  Store store(X509_STORE_new());
  // Accept intermediate authorities as trust anchors, as TLS handshakes do.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  for (const Certificate& authority : *trusted) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  std::time_t until = kNever;
  if (!files_.revoked.empty()) {
    const auto lists =
        ReadRevocationLists({{"--tls-client-crl", files_.revoked}, revoked});
    if (!lists.ok()) return lists.status();
    for (const RevocationList& list : *lists) {
      X509_STORE_add_crl(store.get(), list.get());
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
  const MutexLock lock(mutex_);
  store_ = std::move(store);
  lists_until_ = until;
  verdicts_.clear();
  return {};
}

Status ClientCertificates::Check(std::string_view certificate,
                                 std::string_view chain) const {
  const TokenHash key = HashToken(StrCat(certificate, chain));
  const std::time_t now = std::time(nullptr);
  const MutexLock lock(mutex_);
  const auto found = verdicts_.find(key);
  if (found != verdicts_.end() && now < found->second.until) {
    return found->second.status;
  }
  if (verdicts_.size() >= kMaxVerdicts) verdicts_.clear();
  return (verdicts_[key] = Verify(certificate, chain)).status;
}

ClientCertificates::Verdict ClientCertificates::Verify(
    std::string_view certificate, std::string_view chain) const {
  const auto rejected = [](const std::string& why) {
    return Verdict{NotValid(why), std::time(nullptr) + kMinVerdictSeconds};
  };
  const auto own = ReadCertificates({{"", ""}, std::string(certificate)});
  Result<std::vector<Certificate>> others = std::vector<Certificate>();
  if (!chain.empty()) others = ReadCertificates({{"", ""}, std::string(chain)});
  if (!own.ok() || !others.ok()) return rejected("its PEM cannot be parsed");
  const std::unique_ptr<STACK_OF(X509), FreeStack> untrusted(
      sk_X509_new_null());
  for (const auto* list : {&*others, &intermediates_}) {
    for (const Certificate& other : *list) {
      sk_X509_push(untrusted.get(), other.get());
    }
  }
  Verdict verdict{{}, lists_until_};
  // The first pass ignores the revocation lists, so that AddIntermediates()
  // stores the intermediate certificates even if a list is missing. Resumed
  // sessions send no chain, so they need the stored certificates.
  for (const unsigned long flags : {0UL, kCrlFlags}) {  // NOLINT: OpenSSL's
    const StoreContext context(X509_STORE_CTX_new());
    if (X509_STORE_CTX_init(context.get(), store_.get(), own->front().get(),
                            untrusted.get()) != 1 ||
        X509_STORE_CTX_set_default(context.get(), "ssl_client") != 1) {
      return rejected(LastOpenSslError());
    }
    X509_STORE_CTX_set_flags(context.get(), flags);
    X509_STORE_CTX_set_verify_cb(context.get(), IgnoreAnchorRevocationErrors);
    if (X509_verify_cert(context.get()) != 1) {
      return rejected(X509_verify_cert_error_string(
          X509_STORE_CTX_get_error(context.get())));
    }
    STACK_OF(X509)* verified = X509_STORE_CTX_get0_chain(context.get());
    for (int i = 0; i < sk_X509_num(verified); ++i) {
      const X509* link = sk_X509_value(verified, i);
      // notAfter is inclusive: a certificate expires one second later.
      verdict.until =
          std::min(verdict.until, ToTime(X509_get0_notAfter(link)) + 1);
    }
    AddIntermediates(verified);
    if (files_.revoked.empty()) break;
  }
  // If an unrelated revocation list has expired, `until` is in the past. Cache
  // the verdict for kMinVerdictSeconds nevertheless.
  verdict.until =
      std::max(verdict.until, std::time(nullptr) + kMinVerdictSeconds);
  return verdict;
}

void ClientCertificates::AddIntermediates(STACK_OF(X509) * verified) const {
  for (int i = 1; i + 1 < sk_X509_num(verified); ++i) {
    X509* link = sk_X509_value(verified, i);
    const bool known = std::ranges::any_of(
        intermediates_, [link](const Certificate& intermediate) {
          return X509_cmp(intermediate.get(), link) == 0;
        });
    if (known) continue;
    if (intermediates_.size() >= kMaxIntermediates) {
      intermediates_.erase(intermediates_.begin());
    }
    X509_up_ref(link);
    intermediates_.emplace_back(link);
  }
}

}  // namespace topk
