// SPDX-License-Identifier: GPL-2.0-or-later
// What goes over the service's TCP port: frames, requests and replies (DESIGN 4.4).
//
// A frame is its length (4 bytes, big-endian) and that many bytes, a munge credential as text. A
// request is one frame, whose credential holds the JSON of a Request. A reply is one or more
// frames: munge carries at most a mebibyte, so the reply's JSON is cut into parts; each
// credential holds one part behind a line that binds it to the request ("tranche-reply NONCE PART
// PARTS"), and only the asking user can decode it. A request is answered once and the connection
// closed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "common/wire/json.hpp"

namespace tranche {

inline constexpr std::int64_t kWireVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 4;
inline constexpr std::size_t kLongestRequestBytes = 1 << 20;  // the frame, credential included
inline constexpr std::size_t kLongestReplyFrameBytes = 1 << 20;
inline constexpr std::size_t kReplyPartBytes = 384 << 10;
inline constexpr std::size_t kLongestReplyBytes = std::size_t{256} << 20;
inline constexpr std::size_t kNonceLength = 32;  // hexadecimal digits

// Begins a frame that is no credential: an answer to one who has not proved who he is. It says only
// what is wrong with his request, and the client must not trust it.
inline constexpr std::string_view kStrangerMark = "tranche-refused ";

std::string framed(std::string_view payload);
// The length a header announces; the Error if it is 0 or above `most`.
Result<std::size_t> frame_length(std::string_view header, std::size_t most);

struct Request {
    std::string cluster;  // whose controller is meant
    std::string nonce;    // chosen by the client, used once
    std::string method;
    Json arguments = Json::object();
};

std::string request_text(const Request& request);
Result<Request> parse_request(std::string_view text);

// A reply is a result or one error. `refused`: it was understood, and the answer is no.
struct Reply {
    bool ok = false;
    Json result;
    std::string error;
};

std::string reply_text(const Reply& reply);
Result<Reply> parse_reply(std::string_view text);

// The credentials' contents for a reply.
std::vector<std::string> reply_parts(std::string_view text, const std::string& nonce);

// Puts the parts together again.
class ReplyAssembly {
  public:
    explicit ReplyAssembly(std::string nonce) : nonce_(std::move(nonce)) {}
    // One credential's contents; the Error if it does not belong to this request, or is not the
    // next part.
    Status add(std::string_view part);
    bool complete() const noexcept { return parts_ > 0 && next_ > parts_; }
    const std::string& text() const noexcept { return text_; }

  private:
    std::string nonce_;
    std::size_t next_ = 1;
    std::size_t parts_ = 0;
    std::string text_;
};

}  // namespace tranche
