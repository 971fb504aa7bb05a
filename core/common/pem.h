// Parses PEM files with OpenSSL.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "core/base/free_with.h"
#include "core/common/small_file.h"
#include "topk/status.h"

namespace topk {

using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeWith<X509_CRL_free>>;
using SslContext = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;

/// A PEM file and its contents.
struct PemFile {
  NamedFile file;
  std::string text;
};

/// Read all certificates, all revocation lists or the private key in a file.
/// Return INVALID_ARGUMENT with reason TLS_FILE, naming the flag and the file,
/// if no object is found, an object is damaged, or the key is encrypted.
Result<std::vector<Certificate>> ReadCertificates(const PemFile& pem);
Result<std::vector<RevocationList>> ReadRevocationLists(const PemFile& pem);
Result<PrivateKey> ReadPrivateKey(const PemFile& pem);

/// Returns the status for an invalid PEM file. `what` completes the message
/// "FLAG: PATH ...".
Status BadPem(const PemFile& pem, const std::string& what);

/// Returns the reason of this thread's last OpenSSL error, and clears it.
std::string LastOpenSslError();

/// Converts a time. Returns 0 if the time cannot be parsed.
std::time_t ToTime(const ASN1_TIME* time);

}  // namespace topk
