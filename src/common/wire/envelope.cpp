// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/envelope.hpp"

#include <algorithm>
#include <charconv>

#include "common/base/quoted.hpp"

namespace tranche {
namespace {

constexpr std::string_view kReplyMark = "tranche-reply";

bool is_nonce(std::string_view text) {
    return text.size() == kNonceLength && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

// Takes the word before the next `end` off the text; false where there is none.
bool take_word(std::string_view& text, char end, std::string_view& word) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) {
        return false;
    }
    word = text.substr(0, at);
    text.remove_prefix(at + 1);
    return true;
}

bool read_count(std::string_view word, std::size_t& count) {
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), count);
    return code == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::string framed(std::string_view payload) {
    const auto length = static_cast<std::uint32_t>(payload.size());
    std::string out;
    out.reserve(kFrameHeaderBytes + payload.size());
    for (int shift = 24; shift >= 0; shift -= 8) {
        out.push_back(static_cast<char>(length >> shift & 0xFF));
    }
    out.append(payload);
    return out;
}

Result<std::size_t> frame_length(std::string_view header, std::size_t most) {
    std::size_t length = 0;
    for (const char byte : header.substr(0, kFrameHeaderBytes)) {
        length = length << 8 | static_cast<unsigned char>(byte);
    }
    if (header.size() < kFrameHeaderBytes || length == 0 || length > most) {
        return Error{"a frame of " + std::to_string(length) + " bytes; 1 to " +
                     std::to_string(most) + " would be right"};
    }
    return length;
}

std::string request_text(const Request& request) {
    return Json::object()
        .set("version", kWireVersion)
        .set("cluster", request.cluster)
        .set("nonce", request.nonce)
        .set("method", request.method)
        .set("arguments", request.arguments)
        .compact();
}

Result<Request> parse_request(std::string_view text) {
    const auto json = parse_json(text, "the request", {kLongestRequestBytes, 16});
    if (!json.ok()) {
        return json.failure();
    }
    ObjectReader reader(json.value(), "request");
    reader.integer("version", kWireVersion, kWireVersion);
    const auto cluster = reader.text("cluster");
    const auto nonce = reader.text("nonce");
    const auto method = reader.text("method");
    const auto arguments = reader.object("arguments");
    for (const char* key : {"version", "cluster", "nonce", "method"}) {
        reader.require(key);
    }
    if (nonce && !is_nonce(*nonce)) {
        reader.refuse("nonce", "is not " + std::to_string(kNonceLength) +
                                   " hexadecimal digits in lower case");
    }
    if (const Status status = reader.finish(); !status.ok()) {
        return status.failure();
    }
    return Request{*cluster, *nonce, *method, arguments.value_or(Json::object())};
}

std::string reply_text(const Reply& reply) {
    Json json = Json::object();
    json.set("version", kWireVersion).set("ok", reply.ok);
    if (reply.ok) {
        json.set("result", reply.result);
    } else {
        json.set("error", reply.error);
    }
    return json.compact();
}

Result<Reply> parse_reply(std::string_view text) {
    const auto json = parse_json(text, "the reply", {kLongestReplyBytes, 32});
    if (!json.ok()) {
        return json.failure();
    }
    const Json& object = json.value();
    if (object.at("version").as_integer() != kWireVersion || !object.at("ok").is_boolean()) {
        return Error{"the reply is of another version than this command's, " +
                     std::to_string(kWireVersion)};
    }
    return Reply{object.at("ok").as_boolean(), object.at("result"), object.at("error").as_text()};
}

std::vector<std::string> reply_parts(std::string_view text, const std::string& nonce) {
    const std::size_t count =
        std::max<std::size_t>(1, (text.size() + kReplyPartBytes - 1) / kReplyPartBytes);
    std::vector<std::string> parts;
    parts.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::string part = std::string(kReplyMark) + " " + nonce + " " + std::to_string(i + 1) +
                           " " + std::to_string(count) + "\n";
        part.append(text.substr(std::min(text.size(), i * kReplyPartBytes), kReplyPartBytes));
        parts.push_back(std::move(part));
    }
    return parts;
}

Status ReplyAssembly::add(std::string_view part) {
    std::string_view mark, nonce, number, count;
    std::size_t this_part = 0, parts = 0;
    if (!take_word(part, ' ', mark) || mark != kReplyMark || !take_word(part, ' ', nonce) ||
        !take_word(part, ' ', number) || !take_word(part, '\n', count) ||
        !read_count(number, this_part) || !read_count(count, parts) || parts == 0) {
        return Error{"the answer is not a reply of Tranche's service"};
    }
    if (nonce != nonce_) {
        return Error{"the answer belongs to another request"};
    }
    if (this_part != next_ || (parts_ != 0 && parts != parts_) || this_part > parts) {
        return Error{"part " + std::to_string(this_part) + " of " + std::to_string(parts) +
                     " of the answer came where part " + std::to_string(next_) + " was due"};
    }
    if (text_.size() + part.size() > kLongestReplyBytes) {
        return Error{"the answer is longer than " + std::to_string(kLongestReplyBytes) + " bytes"};
    }
    text_.append(part);
    parts_ = parts;
    ++next_;
    return {};
}

}  // namespace tranche
