"""What drivers of real VMs share about their machine: processes, disk files, limits; no hypervisor."""
