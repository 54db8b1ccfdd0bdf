// The version of vsa. Host-only.
#pragma once

#define VSA_VERSION_MAJOR 0
#define VSA_VERSION_MINOR 1
#define VSA_VERSION_PATCH 0
#define VSA_VERSION_STRING "0.1.0"
