#include "core/common/certificates.h"

#include <openssl/bn.h>

#include <memory>
#include <vector>

#include "core/base/text.h"

namespace topk {
namespace {

CertificateInfo Describe(X509* certificate) {
  CertificateInfo info;
  const Bio name(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(name.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253);
  char* text = nullptr;
  const long length = BIO_get_mem_data(name.get(), &text);  // NOLINT
  info.subject.assign(text, static_cast<size_t>(length));
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(
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
  const Result<PrivateKey> own = ReadPrivateKey(key);
  if (!own.ok()) return own.status();
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, own->get()) != 1) {
    return BadPem(key,
                  StrCat("is not the key of the first certificate of ",
                         certificate.file.flag, " ", certificate.file.path));
  }
  const SslContext context(SSL_CTX_new(TLS_method()));
  bool good = context != nullptr &&
              SSL_CTX_use_certificate(context.get(), leaf) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), own->get()) == 1;
  for (size_t i = 1; good && i < chain->size(); ++i) {
    good = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  if (!good) {
    return BadPem(certificate,
                  StrCat("cannot be used for TLS: ", LastOpenSslError()));
  }
  CertificateInfo info = Describe(leaf);
  if (info.not_after <= std::time(nullptr)) {
    return BadPem(certificate, StrCat("expired at ", UtcText(info.not_after)));
  }
  return info;
}

Status ReadKeyPair(PemFile& certificate, PemFile& key) {
  for (PemFile* pem : {&certificate, &key}) {
    if (pem->file.path.empty()) {
      return InvalidArgument(
          "TLS_FILE", pem->file.flag,
          StrCat(certificate.file.flag, " and ", key.file.flag,
                 " must be set together; ", pem->file.flag, " is missing"));
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
  const Result<std::vector<Certificate>> read = ReadCertificates(bundle);
  return read.ok() ? Status{} : read.status();
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
