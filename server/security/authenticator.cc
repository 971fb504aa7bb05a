#include "server/security/authenticator.h"

#include <grpc/grpc_security_constants.h>
#include <strings.h>

#include <utility>

#include "core/base/text.h"
#include "core/common/target.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

constexpr char kHeader[] = "authorization";
constexpr std::string_view kScheme = "bearer ";

constexpr std::pair<const char*, std::string_view> kKinds[] = {
    {GRPC_PEER_DNS_PROPERTY_NAME, kDnsName},
    {GRPC_PEER_URI_PROPERTY_NAME, kUriName},
    {GRPC_PEER_EMAIL_PROPERTY_NAME, kEmailName},
    {GRPC_PEER_IP_PROPERTY_NAME, kIpName}};

std::string_view View(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

Status Unauthenticated(const char* reason, const char* message) {
  return {Code::kUnauthenticated, reason, "", message};
}

// Returns the token in a header value, or "" if the scheme is not "Bearer".
std::string_view TokenOf(std::string_view value) {
  if (value.size() <= kScheme.size() ||
      strncasecmp(value.data(), kScheme.data(), kScheme.size()) != 0) {
    return {};
  }
  return TrimToken(value.substr(kScheme.size()));
}

// Sets the authenticated name of the caller. `name` is empty for a certificate
// without names; the caller is then identified by its address.
Status Identify(std::string_view kind, std::string_view name, Caller& caller) {
  caller.authenticated = true;
  if (name.empty()) return {};
  caller.name = name;
  caller.key = StrCat(kind, name);
  return {};
}

Status NotAllowed(const std::string& names) {
  return {Code::kPermissionDenied, "CLIENT_NOT_ALLOWED", "",
          names.empty()
              ? "the client's certificate has no name"
              : "no name in the client's certificate is allowed:" + names};
}

}  // namespace

Result<std::unique_ptr<Authenticator>> Authenticator::Start(
    const SecurityConfig& config, const ClientCertificates* certificates,
    spdlog::logger& log) {
  const char* flag = !config.tls_allowed_san.empty()  ? "--tls-allowed-san"
                     : !config.tls_client_crl.empty() ? "--tls-client-crl"
                                                      : nullptr;
  if (flag != nullptr && certificates == nullptr) {
    return InvalidArgument("TLS_CLIENT_CA", flag,
                           StrCat(flag,
                                  " needs --tls-client-ca; without it, the "
                                  "server asks for no client certificates"));
  }
  std::unique_ptr<Authenticator> authenticator(
      new Authenticator(config.client_ipv6_prefix, certificates));
  Result<AllowedNames> allowed = AllowedNames::Parse(config.tls_allowed_san);
  if (!allowed.ok()) return allowed.status();
  authenticator->allowed_ = *std::move(allowed);
  if (config.auth_tokens_file.empty()) return authenticator;
  const std::string path = config.auth_tokens_file;
  Result<std::unique_ptr<WatchedFiles>> file = WatchedFiles::Start(
      {{"--auth-tokens-file", path}},
      [self = authenticator.get(), path,
       &log](const std::vector<std::string>& contents) -> Status {
        Result<TokenSet> tokens = TokenSet::Parse(contents.front());
        if (!tokens.ok()) {
          return InvalidArgument("TOKENS_FILE", "--auth-tokens-file",
                                 StrCat("--auth-tokens-file: ", path, ": ",
                                        tokens.status().message));
        }
        log.info("loaded the tokens of {}", path);
        const MutexLock lock(self->mutex_);
        self->tokens_ = *std::move(tokens);
        return {};
      },
      log);
  if (!file.ok()) return file.status();
  authenticator->tokens_file_ = *std::move(file);
  return authenticator;
}

Result<Caller> Authenticator::Authenticate(
    const grpc::ServerContextBase& context) const {
  Caller caller;
  caller.peer = context.peer();
  const std::string address = AddressOf(caller.peer);
  caller.is_local = address == kUnixPeer || IsLoopback(address);
  if (certificates_ != nullptr) {
    if (Status s = CheckCertificate(context, caller); !s.ok()) return s;
  }
  if (tokens_file_ != nullptr) {
    if (Status s = CheckBearer(context, caller); !s.ok()) return s;
  }
  if (caller.key.empty()) {
    caller.name = address;
    caller.key = caller.name == kUnixPeer
                     ? caller.name
                     : StrCat("addr:", NetworkOf(caller.name, ipv6_prefix_));
  }
  return caller;
}

Status Authenticator::CheckCertificate(const grpc::ServerContextBase& context,
                                       Caller& caller) const {
  const auto connection = context.auth_context();
  const auto first = [&connection](const char* property) {
    const auto values = connection->FindPropertyValues(property);
    return values.empty() ? std::string_view() : View(values[0]);
  };
  const std::string_view certificate = first(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (certificate.empty() && context.peer().starts_with(kUnixPeer)) return {};
  if (Status status = certificates_->Check(
          certificate, first(GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
      !status.ok()) {
    return status;
  }
  constexpr size_t kMaxNames = 500;  // bytes
  std::string names;
  std::string_view name;
  bool may = allowed_.empty();
  for (const auto& [property, kind] : kKinds) {
    for (const grpc::string_ref& text :
         connection->FindPropertyValues(property)) {
      const bool match = allowed_.Match(kind, View(text));
      if (match || name.empty()) name = View(text);
      if (match) return Identify("cert:", name, caller);
      if (!may && names.size() < kMaxNames) {
        names += " " + Quote(StrCat(kind, View(text)));
      }
    }
  }
  if (!may) return NotAllowed(names);
  if (name.empty()) name = first(GRPC_X509_CN_PROPERTY_NAME);
  return Identify("cert:", name, caller);
}

Status Authenticator::CheckBearer(const grpc::ServerContextBase& context,
                                  Caller& caller) const {
  const auto [first, last] = context.client_metadata().equal_range(kHeader);
  if (first == last) {
    return Unauthenticated(
        "TOKEN_MISSING",
        "the call has no header \"authorization: Bearer TOKEN\"");
  }
  const std::string_view token = TokenOf(View(first->second));
  if (token.empty() || std::next(first) != last) {
    return Unauthenticated(
        "TOKEN_MISSING",
        "the call must have exactly one authorization header, "
        "in the form \"authorization: Bearer TOKEN\"");
  }
  const MutexLock lock(mutex_);
  const std::string* name = tokens_.Find(token);
  if (name == nullptr) {
    return Unauthenticated("TOKEN_UNKNOWN",
                           "the server does not know this token");
  }
  return Identify("token:", *name, caller);
}

}  // namespace topk
