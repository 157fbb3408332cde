/* What an operator in C uses of dora: the structures of its C interface, and the helpers that its library brings. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { uint8_t *ptr; size_t len; size_t cap; } Vec_uint8_t;
typedef struct { Vec_uint8_t *error; } DoraResult_t;
typedef struct { DoraResult_t result; void *operator_context; } DoraInitResult_t;
typedef struct { DoraResult_t result; uint8_t status; } OnEventResult_t;
typedef struct Input Input_t;
typedef struct { Input_t *input; Vec_uint8_t input_closed; bool stop; Vec_uint8_t error; } RawEvent_t;
typedef struct SendOutput SendOutput_t;

char *dora_read_input_id(const Input_t *input);
void dora_free_input_id(char *id);
Vec_uint8_t dora_read_data(Input_t *input);
void dora_free_data(Vec_uint8_t data);
DoraResult_t dora_send_operator_output(const SendOutput_t *send_output, const char *id, const uint8_t *data, size_t len);
