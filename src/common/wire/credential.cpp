// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/wire/credential.hpp"

#include <cstdlib>
#include <new>

namespace tranche {
namespace {

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

Munge::Munge(const std::string& socket_path) : context_(munge_ctx_create()) {
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
    if (!socket_path.empty()) {
        munge_ctx_set(context_.get(), MUNGE_OPT_SOCKET, socket_path.c_str());
    }
}

Result<std::string> Munge::encode(std::string_view payload, std::optional<std::uint32_t> only_uid) {
    const uid_t uid = only_uid.value_or(MUNGE_UID_ANY);
    munge_ctx_set(context_.get(), MUNGE_OPT_UID_RESTRICTION, uid);
    char* text = nullptr;
    const munge_err_t code =
        munge_encode(&text, context_.get(), payload.data(), static_cast<int>(payload.size()));
    const std::unique_ptr<char, Free> owner(text);
    if (code != EMUNGE_SUCCESS) {
        const char* why = munge_ctx_strerror(context_.get());
        return Error{std::string("munge cannot encode: ") +
                     (why != nullptr ? why : munge_strerror(code))};
    }
    return std::string(text);
}

Result<Opened> Munge::decode(const std::string& credential) {
    void* payload = nullptr;
    int length = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    const munge_err_t code =
        munge_decode(credential.c_str(), context_.get(), &payload, &length, &uid, &gid);
    const std::unique_ptr<void, Free> owner(payload);
    if (code != EMUNGE_SUCCESS) {
        const char* why = munge_ctx_strerror(context_.get());
        return Error{std::string("munge refuses the credential: ") +
                     (why != nullptr ? why : munge_strerror(code))};
    }
    Opened opened;
    if (payload != nullptr && length > 0) {
        opened.payload.assign(static_cast<const char*>(payload), static_cast<std::size_t>(length));
    }
    opened.uid = uid;
    time_t encoded = 0;
    munge_ctx_get(context_.get(), MUNGE_OPT_ENCODE_TIME, &encoded);
    opened.encoded_at = encoded;
    return opened;
}

}  // namespace tranche
