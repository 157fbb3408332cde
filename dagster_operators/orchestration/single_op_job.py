"""A job of one op, which runs where it was launched."""

from __future__ import annotations

import dagster as dg

from dagster_operators.orchestration.steps import PipelineSteps


def single_op_job(steps: PipelineSteps, name: str, description: str, op: dg.OpDefinition) -> dg.JobDefinition:
    """The job ``<pipeline>_<name>``, in which the op is called as the job is without the pipeline's name."""

    def run() -> None:
        op.alias(name)()

    graph = dg.graph(name=f"{steps.name}_{name}", description=description)(run)
    return graph.to_job(tags=steps.run_tags, executor_def=dg.in_process_executor)
