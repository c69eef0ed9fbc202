// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/service_client.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/quoted.hpp"
#include "common/wire/credential.hpp"
#include "common/wire/envelope.hpp"
#include "engine/real_clock.hpp"

namespace tranche {
namespace {

class Connection {
  public:
    explicit Connection(int number) : number_(number) {}
    Connection(Connection&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Connection& operator=(Connection&&) = delete;
    ~Connection() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    int number() const noexcept { return number_; }

  private:
    int number_;
};

bool wait_for(int socket, short events, std::int64_t ends_at) {
    pollfd polled{socket, events, 0};
    for (;;) {
        const std::int64_t left = ends_at - real_milliseconds();
        if (left <= 0) {
            return false;
        }
        const int ready = real_poll(&polled, 1, left);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return ready > 0;
        }
    }
}

Result<Connection> connect_to(const std::string& host, int port, std::int64_t milliseconds) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    const std::string service = std::to_string(port);
    int code = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
    if (code == EAI_NONAME) {  // with loopback alone AI_ADDRCONFIG finds nothing
        hints.ai_flags = 0;
        code = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
    }
    if (code != 0) {
        return Error{gai_strerror(code)};
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    std::string last = "no address";
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        Connection connection(
            socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (connection.number() < 0) {
            last = std::strerror(errno);
            continue;
        }
        if (connect(connection.number(), each->ai_addr, each->ai_addrlen) != 0 &&
            errno != EINPROGRESS) {
            last = std::strerror(errno);
            continue;
        }
        if (!wait_for(connection.number(), POLLOUT, real_milliseconds() + milliseconds)) {
            last = "no answer";
            continue;
        }
        int mistake = 0;
        socklen_t length = sizeof mistake;
        getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &mistake, &length);
        if (mistake != 0) {
            last = std::strerror(mistake);
            continue;
        }
        return connection;
    }
    return Error{last};
}

Status send_all(const Connection& connection, std::string_view bytes, std::int64_t ends_at) {
    while (!bytes.empty()) {
        const ssize_t sent = send(connection.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(connection.number(), POLLOUT, ends_at)) {
                return Error{"it does not take the request"};
            }
        } else if (errno != EINTR) {
            return Error{std::strerror(errno)};
        }
    }
    return {};
}

// Exactly `count` bytes.
Status receive(const Connection& connection, std::string& out, std::size_t count,
               std::int64_t ends_at) {
    out.clear();
    out.reserve(count);
    char buffer[65536];
    while (out.size() < count) {
        const ssize_t got =
            recv(connection.number(), buffer, std::min(sizeof buffer, count - out.size()), 0);
        if (got > 0) {
            out.append(buffer, static_cast<std::size_t>(got));
        } else if (got == 0) {
            return Error{"it hung up"};
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(connection.number(), POLLIN, ends_at)) {
                return Error{"it did not answer in time"};
            }
        } else if (errno != EINTR) {
            return Error{std::strerror(errno)};
        }
    }
    return {};
}

Result<std::string> new_nonce() {
    unsigned char bytes[kNonceLength / 2];
    if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
        return Error{"no random numbers: " + std::string(std::strerror(errno))};
    }
    std::string nonce;
    for (const unsigned char byte : bytes) {
        nonce += "0123456789abcdef"[byte >> 4];
        nonce += "0123456789abcdef"[byte & 15];
    }
    return nonce;
}

Result<Json> exchange(const Connection& connection, Munge& munge, const ServiceAddress& address,
                      const std::string& nonce, const std::string& credential,
                      std::int64_t ends_at) {
    const Status sent = send_all(connection, framed(credential), ends_at);
    // A service that refuses early has answered all the same: look before complaining.
    ReplyAssembly assembly(nonce);
    while (!assembly.complete()) {
        std::string bytes;
        Status status = receive(connection, bytes, kFrameHeaderBytes, ends_at);
        if (!status.ok()) {
            return sent.ok() ? status.failure() : sent.failure();
        }
        const auto length = frame_length(bytes, kLongestReplyFrameBytes);
        if (!length.ok()) {
            return Error{"it is not Tranche's service: " + length.error()};
        }
        status = receive(connection, bytes, *length, ends_at);
        if (!status.ok()) {
            return status.failure();
        }
        if (bytes.starts_with(kStrangerMark)) {
            return Error{"it refused the request: " +
                         quoted(std::string_view(bytes).substr(kStrangerMark.size()), 300)};
        }
        const auto opened = munge.decode(bytes);
        if (!opened.ok()) {
            return opened.failure();
        }
        if (opened->uid != address.slurm_uid && opened->uid != 0) {
            return Error{"the answer was made by uid " + std::to_string(opened->uid) +
                         ", not by SlurmUser (uid " + std::to_string(address.slurm_uid) + ")"};
        }
        status = assembly.add(opened->payload);
        if (!status.ok()) {
            return status.failure();
        }
    }
    const auto reply = parse_reply(assembly.text());
    if (!reply.ok()) {
        return reply.failure();
    }
    if (!reply->ok) {
        return Error{reply->error};
    }
    return reply->result;
}

}  // namespace

Result<Json> ask_service(const ServiceAddress& address, const std::string& method,
                         const Json& arguments, const ServicePatience& patience) {
    std::string tried;
    for (const std::string& host : address.hosts) {
        const auto connection = connect_to(host, address.port, patience.connect_milliseconds);
        if (!connection.ok()) {
            tried += (tried.empty() ? "" : "; ") + host + ": " + connection.error();
            continue;
        }
        const auto nonce = new_nonce();
        if (!nonce.ok()) {
            return nonce.failure();
        }
        Munge munge(address.munge_socket);
        const auto credential = munge.encode(
            request_text({address.cluster, *nonce, method, arguments}), address.slurm_uid);
        if (!credential.ok()) {
            return credential.failure();
        }
        if (credential->size() > kLongestRequestBytes) {
            return Error{"the request is too long: " + std::to_string(credential->size()) +
                         " bytes; at most " + std::to_string(kLongestRequestBytes) + " are taken"};
        }
        return exchange(*connection, munge, address, *nonce, *credential,
                        real_milliseconds() + patience.answer_milliseconds);
    }
    return Error{"no controller of cluster " + quoted(address.cluster) +
                 " answers on ServicePort " + std::to_string(address.port) + " (" + tried + ")"};
}

}  // namespace tranche
