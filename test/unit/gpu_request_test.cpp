// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/gpu_request.hpp"

#include <gtest/gtest.h>

namespace tranche {
namespace {

using Gpus = std::vector<RequestedGpus>;

TEST(GpuRequest, request_strings_of_every_series_are_read) {
    const struct {
        const char* text;
        Gpus gpus;
    } cases[] = {
        {"", {}},
        {"gres:gpu", {{"", 1}}},
        {"gres:gpu:2", {{"", 2}}},
        {"gres/gpu:2", {{"", 2}}},
        {"gres/gpu=2", {{"", 2}}},
        {"gpu:2", {{"", 2}}},
        {"GRES:GPU:2", {{"", 2}}},
        {"gres:gpu:h100", {{"h100", 1}}},
        {"gres:gpu:h100:4", {{"h100", 4}}},
        {"gres/gpu:h100=4", {{"h100", 4}}},
        {"gres:gpu:1k", {{"", 1024}}},
        {"gres:gpu:a:1,gres:gpu:b:2,gres:gpu:a:3", {{"a", 4}, {"b", 2}}},
        {"gres:gpu:1;gres:gpu:2", {{"", 3}}},
        {"gres:shard:4,gres:gpu:1", {{"", 1}}},
        {"gres:gpumem:4", {}},
        {"gres:gpu:0", {}},
        {"none", {}},
        {"gres:gpu:h100:x", {}},
        {"gres:gpu:99999999999999999999", {{"", std::int64_t{1} << 40}}},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(parse_gpu_request(c.text), c.gpus) << c.text;
    }
}

GpuRequestStrings asking(std::string GpuRequestStrings::*where, const char* text) {
    GpuRequestStrings request;
    request.*where = text;
    return request;
}

TEST(GpuRequest, gpus_of_the_whole_job_are_counted) {
    EXPECT_EQ(requested_gpus(GpuRequestStrings{}), Gpus{});

    GpuRequestStrings per_job = asking(&GpuRequestStrings::per_job, "gres:gpu:3");
    per_job.nodes = 2;
    EXPECT_EQ(requested_gpus(per_job), (Gpus{{"", 3}}));

    GpuRequestStrings per_node = asking(&GpuRequestStrings::per_node, "gres:gpu:h100:2");
    EXPECT_EQ(requested_gpus(per_node), (Gpus{{"h100", 2}}));
    per_node.nodes = 4;
    EXPECT_EQ(requested_gpus(per_node), (Gpus{{"h100", 8}}));
    per_node.nodes = 0;
    per_node.tasks = 9;
    per_node.tasks_per_node = 4;
    EXPECT_EQ(requested_gpus(per_node), (Gpus{{"h100", 6}}));

    GpuRequestStrings per_task = asking(&GpuRequestStrings::per_task, "gres:gpu:2");
    per_task.tasks = 3;
    EXPECT_EQ(requested_gpus(per_task), (Gpus{{"", 6}}));
    per_task.tasks = 0;
    per_task.nodes = 2;
    per_task.tasks_per_node = 4;
    EXPECT_EQ(requested_gpus(per_task), (Gpus{{"", 16}}));

    GpuRequestStrings per_socket = asking(&GpuRequestStrings::per_socket, "gres:gpu:2");
    per_socket.nodes = 3;
    per_socket.sockets_per_node = 2;
    EXPECT_EQ(requested_gpus(per_socket), (Gpus{{"", 12}}));

    GpuRequestStrings per_gpu;
    per_gpu.tasks = 9;
    per_gpu.tasks_per_gpu = 4;
    EXPECT_EQ(requested_gpus(per_gpu), (Gpus{{"", 3}}));
}

TEST(GpuRequest, a_whole_node_comes_with_all_its_gpus) {
    GpuRequestStrings request;
    request.exclusive = true;
    request.nodes = 2;
    EXPECT_EQ(requested_gpus(request), Gpus{});
    request.gpus_of_a_node = {{"h100", 8}};
    EXPECT_EQ(requested_gpus(request), (Gpus{{"h100", 16}}));
    request.per_job = "gres:gpu:1";
    EXPECT_EQ(requested_gpus(request), (Gpus{{"h100", 16}}));
}

}  // namespace
}  // namespace tranche
