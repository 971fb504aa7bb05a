#include "core/security/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <vector>

#include "core/base/text.h"

namespace topk {
namespace {

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Returns what OpenSSL has to say of its last failure.
std::string LastError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text = reason == nullptr ? "unknown reason" : reason;
  ERR_clear_error();
  return text;
}

Status Bad(const PemFile& pem, const std::string& what) {
  ERR_clear_error();
  return InvalidArgument("TLS_FILE", pem.file.flag,
                         Cat(pem.file.flag, ": ", pem.file.path, " ", what));
}

// Nobody can be asked for a passphrase.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem) {
  const Bio bio = Open(pem.text);
  std::vector<Certificate> certificates;
  bool asked = false;
  ERR_clear_error();
  while (Certificate next{
      PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, &asked)}) {
    certificates.push_back(std::move(next));
  }
  // The text ends where no other one begins.
  const unsigned long end = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  if (ERR_GET_LIB(end) != ERR_LIB_PEM ||
      ERR_GET_REASON(end) != PEM_R_NO_START_LINE) {
    const std::string reason = LastError();
    return Bad(pem, Cat("has a damaged certificate, its number ",
                        certificates.size() + 1, ": ", reason));
  }
  if (certificates.empty()) return Bad(pem, "has no certificate in PEM form");
  ERR_clear_error();
  return certificates;
}

Result<Key> ReadKey(const PemFile& pem) {
  const Bio bio = Open(pem.text);
  bool asked = false;
  ERR_clear_error();
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, &asked));
  if (asked)
    return Bad(pem, "is encrypted; a key without passphrase is needed");
  if (key == nullptr) return Bad(pem, "has no private key in PEM form");
  return key;
}

std::time_t ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

CertificateInfo Describe(X509* certificate) {
  CertificateInfo info;
  const Bio name(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(name.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253);
  char* text = nullptr;
  const long length = BIO_get_mem_data(name.get(), &text);  // NOLINT
  info.subject.assign(text, static_cast<size_t>(length));
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* hex = number == nullptr ? nullptr : BN_bn2hex(number.get());
  if (hex != nullptr) info.serial = hex;
  OPENSSL_free(hex);
  info.not_before = ToTime(X509_get0_notBefore(certificate));
  info.not_after = ToTime(X509_get0_notAfter(certificate));
  return info;
}

}  // namespace

Result<CertificateInfo> CheckKeyPair(const PemFile& certificate,
                                     const PemFile& key) {
  const Result<std::vector<Certificate>> chain = ReadCertificates(certificate);
  if (!chain.ok()) return chain.status();
  const Result<Key> own = ReadKey(key);
  if (!own.ok()) return own.status();
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, own->get()) != 1) {
    return Bad(key, Cat("is not the key of the first certificate of ",
                        certificate.file.flag, " ", certificate.file.path));
  }
  const Context context(SSL_CTX_new(TLS_method()));
  bool good = context != nullptr &&
              SSL_CTX_use_certificate(context.get(), leaf) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), own->get()) == 1;
  for (size_t i = 1; good && i < chain->size(); ++i) {
    good = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  if (!good) {
    return Bad(certificate, Cat("cannot be used for TLS: ", LastError()));
  }
  CertificateInfo info = Describe(leaf);
  if (info.not_after <= std::time(nullptr)) {
    return Bad(certificate, Cat("expired at ", UtcText(info.not_after)));
  }
  return info;
}

Status CheckCaBundle(const PemFile& bundle) {
  const Result<std::vector<Certificate>> read = ReadCertificates(bundle);
  return read.ok() ? Status{} : read.status();
}

Status ReadKeyPair(PemFile& certificate, PemFile& key) {
  for (PemFile* pem : {&certificate, &key}) {
    if (pem->file.path.empty()) {
      return InvalidArgument(
          "TLS_FILE", pem->file.flag,
          Cat(certificate.file.flag, " and ", key.file.flag,
              " need each other; ", pem->file.flag, " is not given"));
    }
    Result<std::string> text = ReadSmallFile(pem->file);
    if (!text.ok()) return text.status();
    pem->text = *std::move(text);
  }
  const Result<CertificateInfo> checked = CheckKeyPair(certificate, key);
  return checked.ok() ? Status{} : checked.status();
}

Status ReadCaBundle(PemFile& bundle) {
  Result<std::string> text = ReadSmallFile(bundle.file);
  if (!text.ok()) return text.status();
  bundle.text = *std::move(text);
  return CheckCaBundle(bundle);
}

std::string UtcText(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

}  // namespace topk
